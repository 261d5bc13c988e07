// Images: the forms that files come in, resizing as PyTorch does it, and files that are broken or enormous.
#include "samples/images.h"

#include <gtest/gtest.h>
#include <leptonica/allheaders.h>

#include <cstdlib>

namespace swoop {
namespace {

// A picture of 2 x 2 pixels in any of Leptonica's forms, as a file.
struct Picture {
  explicit Picture(int32_t depth) : pix(pixCreate(2, 2, depth)) {}
  Picture(const Picture&) = delete;
  ~Picture() { pixDestroy(&pix); }
  std::string file(int32_t format) const {
    uint8_t* data = nullptr;
    size_t size = 0;
    EXPECT_EQ(pixWriteMem(&data, &size, pix, format), 0);
    std::string bytes(reinterpret_cast<const char*>(data), size);
    std::free(data);
    return bytes;
  }
  Pix* pix;
};

std::string color_file(int32_t format) {
  Picture picture(32);
  pixSetRGBPixel(picture.pix, 0, 0, 0, 20, 40);
  pixSetRGBPixel(picture.pix, 1, 0, 60, 80, 100);
  pixSetRGBPixel(picture.pix, 0, 1, 120, 140, 160);
  pixSetRGBPixel(picture.pix, 1, 1, 180, 200, 255);
  return picture.file(format);
}

std::vector<float> levels(const std::string& file, int64_t channels) {  // 0 .. 255
  Result<Tensor> image = decode_image(bytes_of(file), "a", channels);
  EXPECT_TRUE(image) << image.error().message;
  if (!image) return {};
  EXPECT_EQ(image->shape, (Shape{channels, 2, 2}));
  std::vector<float> values(image->as<float>().begin(), image->as<float>().end());
  for (float& v : values) v = std::nearbyint(v * 255);
  return values;
}

std::string fault(const std::string& file) {
  Result<Tensor> image = decode_image(bytes_of(file), "a.png", 3);
  return image ? "" : image.error().message;
}

TEST(Images, every_format_gives_planes_of_red_green_and_blue) {
  const std::vector<float> planes = {0, 60, 120, 180, 20, 80, 140, 200, 40, 100, 160, 255};
  EXPECT_EQ(levels(color_file(IFF_PNG), 3), planes);
  EXPECT_EQ(levels(color_file(IFF_BMP), 3), planes);
  EXPECT_EQ(levels(color_file(IFF_PNM), 3), planes);
  EXPECT_EQ(levels(color_file(IFF_PNG), 1), (std::vector<float>{16, 76, 136, 200})) << "luma";
  Picture flat(32);
  for (int i = 0; i < 4; ++i) pixSetRGBPixel(flat.pix, i % 2, i / 2, 200, 100, 50);
  std::vector<float> jpeg = levels(flat.file(IFF_JFIF_JPEG), 3);
  for (size_t i = 0; i < jpeg.size(); ++i) EXPECT_NEAR(jpeg[i], i < 4 ? 200 : i < 8 ? 100 : 50, 3) << i;
}

TEST(Images, grey_palettes_and_transparency_become_colors) {
  Picture grey(8);
  pixSetPixel(grey.pix, 1, 0, 200);
  EXPECT_EQ(levels(grey.file(IFF_PNG), 1), (std::vector<float>{0, 200, 0, 0}));
  EXPECT_EQ(levels(grey.file(IFF_PNM), 3), (std::vector<float>{0, 200, 0, 0, 0, 200, 0, 0, 0, 200, 0, 0}));
  Picture bilevel(1);  // in which Leptonica takes 1 for black
  pixSetPixel(bilevel.pix, 1, 0, 1);
  EXPECT_EQ(levels(bilevel.file(IFF_PNG), 1), (std::vector<float>{255, 0, 255, 255}));
  Picture palette(8);
  PixColormap* colors = pixcmapCreate(8);
  pixcmapAddColor(colors, 10, 20, 30);
  pixcmapAddColor(colors, 40, 50, 60);
  pixSetColormap(palette.pix, colors);
  pixSetPixel(palette.pix, 1, 1, 1);
  EXPECT_EQ(levels(palette.file(IFF_PNG), 3), (std::vector<float>{10, 10, 10, 40, 20, 20, 20, 50, 30, 30, 30, 60}));
  Picture clear(32);
  pixSetSpp(clear.pix, 4);
  for (int i = 0; i < 4; ++i) pixSetPixel(clear.pix, i % 2, i / 2, 0x64320A80);  // red, green, blue, alpha
  EXPECT_EQ(levels(clear.file(IFF_PNG), 3), (std::vector<float>{100, 100, 100, 100, 50, 50, 50, 50, 10, 10, 10, 10}));
}

// Recorded from PyTorch 2.13: interpolate(mode="bilinear", antialias=True), and the middle of it as torchvision's
// CenterCrop cuts it.
TEST(Images, cover_is_pytorchs_antialiased_resize_and_centre_crop) {
  struct Case {
    int64_t from_height, from_width, height, width;
    std::vector<float> wanted;
  };
  const Case cases[] = {
      {7, 5, 3, 3, {0.282246f, 0.363814f, 0.696012f, 0.538308f, 0.405926f, 0.500347f, 0.459922f, 0.730771f, 0.717221f}},
      {3, 4, 4, 5, {0.000000f, 0.411765f, 0.501961f, 0.436863f, 0.486275f, 0.500000f, 0.458824f,
                    0.345098f, 0.264314f, 0.300000f, 0.676471f, 0.618824f, 0.486275f, 0.386667f,
                    0.405882f, 0.470588f, 0.838431f, 0.878431f, 0.763137f, 0.768627f}},
      {11, 4, 2, 2, {0.576717f, 0.695843f, 0.655276f, 0.719888f}},
      {3,
       8,
       4,
       4,
       {0.436863f, 0.517647f, 0.768627f, 0.487059f, 0.640784f, 0.627451f, 0.345098f, 0.408628f, 0.697255f, 0.646274f,
        0.326274f, 0.352157f, 0.587451f, 0.567843f, 0.718431f, 0.336470f}},
  };
  for (const Case& c : cases) {
    Tensor image = make_tensor(DType::F32, {1, c.from_height, c.from_width});
    for (size_t i = 0; i < image.as<float>().size(); ++i)
      image.as<float>()[i] = static_cast<float>((31 * i * i + 119 * i) % 256) / 255.0f;
    Tensor covered = cover(image, c.height, c.width);
    ASSERT_EQ(covered.shape, (Shape{1, c.height, c.width}));
    for (size_t i = 0; i < c.wanted.size(); ++i)
      EXPECT_NEAR(covered.as<float>()[i], c.wanted[i], 2e-6f) << c.from_height << " x " << c.from_width << ": " << i;
  }
}

TEST(Images, cover_of_the_same_size_changes_nothing) {
  Tensor image = make_tensor(DType::F32, {3, 5, 4});
  for (size_t i = 0; i < image.as<float>().size(); ++i) image.as<float>()[i] = static_cast<float>(i) / 59.0f;
  EXPECT_EQ(Buffer(cover(image, 5, 4).data), Buffer(image.data));
}

TEST(Images, a_very_long_image_takes_no_more_memory_than_itself) {
  Tensor image = make_tensor(DType::F32, {1, 4'000'000, 1});  // a column; its middle is scaled up 512 times
  std::fill(image.as<float>().begin(), image.as<float>().end(), 0.25f);
  Tensor covered = cover(image, 512, 512);
  EXPECT_EQ(covered.as<float>()[512 * 256], 0.25f);
}

TEST(Images, a_sentence_for_files_that_cannot_be_read) {
  EXPECT_EQ(fault(""), "a.png: not an image that can be read; PNG, JPEG, BMP, PPM and PGM can");
  EXPECT_EQ(fault("nonsense that is longer than a header"),
            "a.png: not an image that can be read; PNG, JPEG, BMP, PPM and PGM can");
  EXPECT_EQ(fault("P6\n60000 60000\n255\nabc"),
            "a.png: an image of 60000 x 60000 pixels is not read; at most 67108864 pixels are");
  std::string png = color_file(IFF_PNG);
  EXPECT_EQ(fault(png.substr(0, 60)),
            "a.png: the image is damaged: its header says 2 x 2 pixels, which cannot be read");
}

// Cut at every length and with every byte turned, a file is an image or an error.
TEST(Images, broken_files_do_not_crash) {
  for (int32_t format : {IFF_PNG, IFF_JFIF_JPEG, IFF_BMP, IFF_PNM}) {
    const std::string file = color_file(format);
    for (size_t i = 0; i < file.size(); ++i) {
      fault(file.substr(0, i));
      std::string turned = file;
      turned[i] = static_cast<char>(~turned[i]);
      fault(turned);
    }
  }
}

}  // namespace
}  // namespace swoop
