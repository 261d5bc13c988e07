#include "samples/images.h"

#include <jpeglib.h>
#include <png.h>

#include <algorithm>
#include <csetjmp>
#include <cstdio>

#include "samples/inputs.h"

namespace swoop {

namespace {

constexpr int64_t kMaxPixels = int64_t{1} << 26;  // 64 megapixels: more is no sample for a network on a microcontroller

struct Pixels {
  int64_t width = 0;
  int64_t height = 0;
  std::vector<uint8_t> rgb;
};

Result<void> check_size(int64_t width, int64_t height, const std::string& path) {
  if (width <= 0 || height <= 0 || width > kMaxPixels || height > kMaxPixels || width * height > kMaxPixels)
    return error("{}: an image of {} x {} pixels is not read; at most {} pixels are", path, width, height, kMaxPixels);
  return {};
}

Result<Pixels> read_png(Bytes bytes, const std::string& path) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  if (!png_image_begin_read_from_memory(&image, bytes.data(), bytes.size()))
    return error("{}: not a readable PNG image ({})", path, image.message);
  image.format = PNG_FORMAT_RGB;
  Pixels pixels{image.width, image.height, {}};
  if (auto fits = check_size(pixels.width, pixels.height, path); !fits) {
    png_image_free(&image);
    return fits.error();
  }
  pixels.rgb.resize(PNG_IMAGE_SIZE(image));
  png_color black{0, 0, 0};
  if (!png_image_finish_read(&image, &black, pixels.rgb.data(), 0, nullptr)) {
    std::string why = image.message;
    png_image_free(&image);
    return error("{}: not a readable PNG image ({})", path, why);
  }
  return pixels;
}

// libjpeg reports errors by jumping out of the call.
struct JpegFault {
  jpeg_error_mgr manager;
  std::jmp_buf back;
  char message[JMSG_LENGTH_MAX];
};

void jump_out(j_common_ptr info) {
  auto* fault = reinterpret_cast<JpegFault*>(info->err);
  info->err->format_message(info, fault->message);
  std::longjmp(fault->back, 1);
}
void say_nothing(j_common_ptr, int) {}

// False with fault.message set on a broken file. No C++ object is made between setjmp and a possible jump.
bool decode_jpeg(jpeg_decompress_struct& jpeg, JpegFault& fault, Bytes bytes, Pixels& pixels, bool& too_large) {
  if (setjmp(fault.back)) return false;
  jpeg_mem_src(&jpeg, reinterpret_cast<const unsigned char*>(bytes.data()), static_cast<unsigned long>(bytes.size()));
  jpeg_read_header(&jpeg, TRUE);
  jpeg.out_color_space = JCS_RGB;
  pixels.width = jpeg.image_width;
  pixels.height = jpeg.image_height;
  too_large = pixels.width * pixels.height > kMaxPixels;
  if (too_large) return false;
  jpeg_start_decompress(&jpeg);
  pixels.rgb.resize(static_cast<size_t>(3 * pixels.width * pixels.height));
  while (jpeg.output_scanline < jpeg.output_height) {
    JSAMPROW row = pixels.rgb.data() + size_t{3} * jpeg.output_scanline * static_cast<size_t>(pixels.width);
    jpeg_read_scanlines(&jpeg, &row, 1);
  }
  jpeg_finish_decompress(&jpeg);
  return true;
}

Result<Pixels> read_jpeg(Bytes bytes, const std::string& path) {
  jpeg_decompress_struct jpeg{};
  JpegFault fault{};
  jpeg.err = jpeg_std_error(&fault.manager);
  fault.manager.error_exit = jump_out;
  fault.manager.emit_message = say_nothing;
  jpeg_create_decompress(&jpeg);
  Pixels pixels;
  bool too_large = false;
  bool read = decode_jpeg(jpeg, fault, bytes, pixels, too_large);
  jpeg_destroy_decompress(&jpeg);
  if (too_large) return check_size(pixels.width, pixels.height, path).error();
  if (!read) return error("{}: not a readable JPEG image ({})", path, fault.message);
  return pixels;
}

// P5 and P6: "P6 width height 255" and the bytes behind one white space; # starts a comment.
Result<Pixels> read_ppm(Bytes bytes, const std::string& path) {
  std::string_view text = text_of(bytes);
  size_t at = 2;
  auto number = [&]() -> int64_t {
    while (at < text.size() && (std::isspace(static_cast<unsigned char>(text[at])) || text[at] == '#')) {
      if (text[at] == '#')
        while (at < text.size() && text[at] != '\n') ++at;
      else
        ++at;
    }
    int64_t value = -1;
    for (; at < text.size() && text[at] >= '0' && text[at] <= '9' && value < kMaxPixels; ++at)
      value = std::max<int64_t>(value, 0) * 10 + (text[at] - '0');
    return value;
  };
  int64_t planes = text.starts_with("P6") ? 3 : text.starts_with("P5") ? 1 : 0;
  Pixels pixels;
  pixels.width = number();
  pixels.height = number();
  int64_t largest = number();
  ++at;
  if (planes == 0 || largest != 255)
    return error("{}: not a PPM or PGM image of 8 bits (P6 or P5 with maximum 255)", path);
  TRY(check_size(pixels.width, pixels.height, path));
  auto count = static_cast<size_t>(pixels.width * pixels.height);
  if (!contains(bytes, at, count * static_cast<size_t>(planes)))
    return error("{}: the image ends before its {} x {} pixels do", path, pixels.width, pixels.height);
  pixels.rgb.resize(3 * count);
  for (size_t i = 0; i < 3 * count; ++i) pixels.rgb[i] = static_cast<uint8_t>(bytes[at + (planes == 3 ? i : i / 3)]);
  return pixels;
}

bool ends_with(const std::string& path, std::string_view end) {
  if (path.size() < end.size()) return false;
  return std::equal(end.rbegin(), end.rend(), path.rbegin(),
                    [](char a, char b) { return a == std::tolower(static_cast<unsigned char>(b)); });
}

// [channels, height, width]; `channels` is 1 (luminance) or 3.
Result<Tensor> read_image(Bytes bytes, const std::string& path, int64_t channels) {
  bool png = ends_with(path, ".png");
  bool jpeg = ends_with(path, ".jpg") || ends_with(path, ".jpeg");
  TRY_ASSIGN(Pixels pixels, png ? read_png(bytes, path) : jpeg ? read_jpeg(bytes, path) : read_ppm(bytes, path));
  Tensor tensor = make_tensor(DType::F32, {channels, pixels.height, pixels.width});
  std::span<float> to = tensor.as<float>();
  size_t count = pixels.rgb.size() / 3;
  for (size_t i = 0; i < count; ++i) {
    auto channel = [&](size_t c) { return static_cast<float>(pixels.rgb[3 * i + c]) / 255.0f; };
    if (channels == 1) {
      to[i] =
          0.299f * channel(0) + 0.587f * channel(1) + 0.114f * channel(2);  // ITU-R BT.601 luma, as PIL's convert("L")
    } else {
      for (size_t c = 0; c < 3; ++c) to[c * count + i] = channel(c);
    }
  }
  return tensor;
}

}  // namespace

bool is_image(const std::string& path) {
  for (std::string_view end : {".png", ".jpg", ".jpeg", ".ppm", ".pgm"})
    if (ends_with(path, end)) return true;
  return false;
}

Result<Sample> sample_from_image(Bytes bytes, const std::string& path, const Graph& graph,
                                 const SampleOptions& options) {
  TRY_ASSIGN(Input input, single_input(graph, path));
  const Shape& shape = input.type->shape;
  size_t channel = shape.size() == 4 ? 1 : 0;
  bool fits = is_float(input.type->dtype) && (shape.size() == 3 || (shape.size() == 4 && shape[0] == 1)) &&
              (shape[channel] == 1 || shape[channel] == 3);
  if (!fits)
    return error("{}: an image cannot be given to input {} {}; images fit [1,3,H,W] and [1,1,H,W]", path, input.name,
                 to_text(*input.type));
  auto channels = static_cast<size_t>(shape[channel]);
  if ((options.mean.size() != 1 && options.mean.size() != channels) ||
      (options.std.size() != 1 && options.std.size() != channels))
    return error("the image mean and std need one value, or one for each of the {} channels", channels);
  if (std::any_of(options.std.begin(), options.std.end(), [](double s) { return !(s > 0); }))
    return error("the image std must be above zero");
  TRY_ASSIGN(Tensor image, read_image(bytes, path, shape[channel]));
  if (image.shape[1] != shape[channel + 1] || image.shape[2] != shape[channel + 2])
    return error(
        "{}: the image is {} x {} (height x width); input {} takes {} x {}, so resize it as your own pipeline does",
        path, image.shape[1], image.shape[2], input.name, shape[channel + 1], shape[channel + 2]);
  std::span<float> x = image.as<float>();
  for (size_t c = 0; c < channels; ++c)
    for (size_t i = 0; i < x.size() / channels; ++i) {
      float& v = x[c * (x.size() / channels) + i];
      v = (v - static_cast<float>(options.mean[c % options.mean.size()])) /
          static_cast<float>(options.std[c % options.std.size()]);
    }
  image.shape = shape;
  Sample sample = blank_sample(graph);
  sample[input.index] = std::move(image);
  return sample;
}

}  // namespace swoop
