#include <dlfcn.h>
#include <leptonica/allheaders.h>

#include <memory>
#include <optional>

#include "samples/images.h"

namespace swoop {

namespace {

constexpr int64_t kMaxPixels = int64_t{1} << 26;  // 64 megapixels: more is no sample for a network on a microcontroller

// Leptonica brings a dozen libraries along, which take longer to load than a small network to compile: only who has
// images loads it.
struct Leptonica {
  decltype(&::setMsgSeverity) set_severity;
  decltype(&::pixReadHeaderMem) read_header;
  decltype(&::pixReadMem) read;
  decltype(&::pixConvertTo32) to_colours;
  decltype(&::pixGetWidth) width;
  decltype(&::pixGetHeight) height;
  decltype(&::pixGetData) data;
  decltype(&::pixGetWpl) words_per_line;
  decltype(&::pixDestroy) destroy;
};

template <typename Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

std::optional<Leptonica> load_leptonica() {
  void* library = dlopen(SWOOP_LEPTONICA, RTLD_LAZY | RTLD_LOCAL);
  Leptonica all{};
  const bool found = library && find(library, "setMsgSeverity", all.set_severity) &&
                     find(library, "pixReadHeaderMem", all.read_header) && find(library, "pixReadMem", all.read) &&
                     find(library, "pixConvertTo32", all.to_colours) && find(library, "pixGetWidth", all.width) &&
                     find(library, "pixGetHeight", all.height) && find(library, "pixGetData", all.data) &&
                     find(library, "pixGetWpl", all.words_per_line) && find(library, "pixDestroy", all.destroy);
  if (!found) return std::nullopt;
  all.set_severity(L_SEVERITY_NONE);  // otherwise it prints
  return all;
}

struct Destroy {
  const Leptonica* leptonica;
  void operator()(Pix* image) const { leptonica->destroy(&image); }
};
using Image = std::unique_ptr<Pix, Destroy>;

// Of the formats that Leptonica reads, those that calibration images come in; fewer decoders see a hostile file.
bool is_known(int32_t format) {
  return format == IFF_PNG || format == IFF_JFIF_JPEG || format == IFF_BMP || format == IFF_PNM;
}

}  // namespace

Result<Tensor> decode_image(Bytes bytes, const std::string& path, int64_t channels) {
  static const std::optional<Leptonica> leptonica = load_leptonica();
  if (!leptonica) return error("{}: images are read with {}, which cannot be loaded", path, SWOOP_LEPTONICA);
  const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
  int32_t format = IFF_UNKNOWN, width = 0, height = 0, bits = 0, samples = 0, palette = 0;
  if (leptonica->read_header(data, bytes.size(), &format, &width, &height, &bits, &samples, &palette) != 0 ||
      !is_known(format))
    return error("{}: not an image that can be read; PNG, JPEG, BMP, PPM and PGM can", path);
  if (int64_t{width} * height > kMaxPixels)
    return error("{}: an image of {} x {} pixels is not read; at most {} pixels are", path, width, height, kMaxPixels);
  const Destroy destroy{&*leptonica};
  Image read(leptonica->read(data, bytes.size()), destroy);
  // Red, green and blue, whatever the file holds.
  Image image(read ? leptonica->to_colours(read.get()) : nullptr, destroy);
  if (!image || leptonica->width(image.get()) != width || leptonica->height(image.get()) != height)
    return error("{}: the image is damaged: its header says {} x {} pixels, which cannot be read", path, width, height);

  Tensor tensor = make_tensor(DType::F32, {channels, height, width});
  std::span<float> to = tensor.as<float>();
  size_t count = to.size() / static_cast<size_t>(channels);
  size_t i = 0;
  for (int32_t y = 0; y < height; ++y) {
    const uint32_t* row = leptonica->data(image.get()) + int64_t{y} * leptonica->words_per_line(image.get());
    for (int32_t x = 0; x < width; ++x, ++i) {
      float red = static_cast<float>(row[x] >> L_RED_SHIFT & 0xff) / 255.0f;
      float green = static_cast<float>(row[x] >> L_GREEN_SHIFT & 0xff) / 255.0f;
      float blue = static_cast<float>(row[x] >> L_BLUE_SHIFT & 0xff) / 255.0f;
      if (channels == 1) {
        to[i] = 0.299f * red + 0.587f * green + 0.114f * blue;  // ITU-R BT.601 luma, as PIL's convert("L")
      } else {
        to[i] = red;
        to[count + i] = green;
        to[2 * count + i] = blue;
      }
    }
  }
  return tensor;
}

}  // namespace swoop
