// Loading samples: the good forms, and a sentence for each thing that can be wrong with them.
#include "samples/samples.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "support/file.h"
#include "support/npz.h"

namespace swoop {
namespace {

class SamplesTest : public testing::Test {
 protected:
  SamplesTest() : folder_(std::filesystem::temp_directory_path() / fmt::format("swoop-samples-{}", getpid())) {
    std::filesystem::create_directories(folder_);
    graph_.add_input({DType::F32, {1, 2}, {}}, "x", {Port::Role::User, "x", {}});
  }
  ~SamplesTest() override { std::filesystem::remove_all(folder_); }

  static NpyArray array(std::vector<int64_t> shape, std::vector<float> values) {
    Bytes bytes = std::as_bytes(std::span(values));
    return {"<f4", std::move(shape), Buffer(bytes.begin(), bytes.end())};
  }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::string npz(const std::string& name, const std::vector<NamedArray>& arrays) const {
    Result<Buffer> bytes = write_npz(arrays);
    EXPECT_TRUE(bytes && write_file(path(name), *bytes));
    return path(name);
  }
  // The error, without the folder in front.
  std::string fault(const std::string& file, const SampleOptions& options = {}) const {
    Result<Samples> samples = load_samples(file, graph_, options);
    if (samples) return "";
    std::string message = samples.error().message;
    std::string front = folder_.string() + "/";
    if (size_t at = message.find(front); at != std::string::npos) message.erase(at, front.size());
    return message;
  }

  std::filesystem::path folder_;
  Graph graph_;
};

TEST_F(SamplesTest, reads_one_sample_or_a_stack) {
  Result<Samples> one = load_samples(npz("one.npz", {{"x", array({1, 2}, {1, 2})}}), graph_);
  ASSERT_TRUE(one) << one.error().message;
  EXPECT_EQ(one->inputs.size(), 1u);
  Result<Samples> three = load_samples(npz("three.npz", {{"x", array({3, 1, 2}, {1, 2, 3, 4, 5, 6})}}), graph_);
  ASSERT_TRUE(three) << three.error().message;
  ASSERT_EQ(three->inputs.size(), 3u);
  EXPECT_EQ(three->inputs[2][0].as<float>()[1], 6.0f);
  EXPECT_FALSE(three->random);
}

TEST_F(SamplesTest, a_model_with_one_input_takes_the_array_that_fits) {
  auto first = [&](const std::string& file) {
    Result<Samples> samples = load_samples(file, graph_);
    EXPECT_TRUE(samples) << samples.error().message;
    return samples ? samples->inputs[0][0].as<float>()[0] : NAN;
  };
  NamedArray labels{"labels", {"<i8", {2}, Buffer(16)}};
  EXPECT_EQ(first(npz("other.npz", {{"arr_0", array({1, 2}, {3, 4})}})), 3);
  EXPECT_EQ(first(npz("labels.npz", {labels, {"images", array({2, 1, 2}, {5, 6, 7, 8})}})), 5);
  EXPECT_EQ(first(npz("named.npz", {{"y", array({1, 2}, {1, 2})}, {"x", array({1, 2}, {9, 0})}})), 9);
  EXPECT_EQ(fault(npz("both.npz", {{"a", array({1, 2}, {1, 2})}, labels, {"b", array({1, 1, 2}, {1, 2})}})),
            "both.npz: both a and b fit input x f32[1,2]; name the right one x");
  EXPECT_EQ(fault(npz("none.npz", {labels, {"a", array({3}, {1, 2, 3})}})),
            "none.npz: none of the 2 arrays fits input x f32[1,2]: labels has shape [2]; the input takes [1,2], or "
            "[N,...] of it for N samples");
  EXPECT_EQ(fault(npz("one.npz", {{"a", array({3}, {1, 2, 3})}})),
            "one.npz: a has shape [3]; the input takes [1,2], or [N,...] of it for N samples");
}

TEST_F(SamplesTest, reads_a_folder_in_the_order_of_names) {
  ASSERT_TRUE(write_file(path("b.npy"), write_npy(array({1, 2}, {3, 4}))));
  npz("a.npz", {{"x", array({1, 2}, {1, 2})}});
  Result<Samples> samples = load_samples(folder_.string(), graph_);
  ASSERT_TRUE(samples) << samples.error().message;
  ASSERT_EQ(samples->inputs.size(), 2u);
  EXPECT_EQ(samples->inputs[0][0].as<float>()[0], 1.0f);
  EXPECT_EQ(samples->inputs[1][0].as<float>()[0], 3.0f);
}

TEST_F(SamplesTest, random_samples_are_marked_and_repeatable) {
  Result<Samples> a = load_samples("random:7", graph_);
  Result<Samples> b = load_samples("random:7", graph_);
  Result<Samples> c = load_samples("random:8", graph_);
  ASSERT_TRUE(a && b && c);
  EXPECT_TRUE(a->random);
  EXPECT_EQ(a->inputs[0][0].as<float>()[0], b->inputs[0][0].as<float>()[0]);
  EXPECT_NE(a->inputs[0][0].as<float>()[0], c->inputs[0][0].as<float>()[0]);
  EXPECT_EQ(fault("random:x"), "random:x needs a whole number as its seed, as in random:1");
}

TEST_F(SamplesTest, a_sentence_for_each_fault) {
  EXPECT_EQ(fault(npz("shape.npz", {{"x", array({3, 2}, {1, 2, 3, 4, 5, 6})}})),
            "shape.npz: x has shape [3,2]; the input takes [1,2], or [N,...] of it for N samples");
  EXPECT_EQ(fault(npz("nan.npz", {{"x", array({2, 1, 2}, {1, 2, 3, NAN})}})),
            "nan.npz: x has NaN at element 1 of sample 1; calibration needs finite numbers");
  EXPECT_EQ(fault(npz("inf.npz", {{"x", array({1, 2}, {1, INFINITY})}})),
            "inf.npz: x has an infinity at element 1 of sample 0; calibration needs finite numbers");
  EXPECT_EQ(fault(npz("none.npz", {{"x", array({0, 1, 2}, {})}})), "none.npz: x holds no samples");
  EXPECT_EQ(fault(npz("empty.npz", {})), "empty.npz: there are no arrays in this file");
  NpyArray integers{"<i8", {1, 2}, Buffer(16)};
  EXPECT_EQ(fault(npz("type.npz", {{"x", integers}})), "type.npz: x holds <i8; the input takes floats (<f4, <f8, <f2)");
  std::filesystem::create_directories(folder_ / "bare");
  EXPECT_EQ(fault(path("bare")), "bare: there are no .npz, .npy or image files in this folder");
  graph_.add_input({DType::I64, {3}, {}}, "ids", {Port::Role::User, "ids", {}});
  EXPECT_EQ(fault(npz("name.npz", {{"x", array({1, 2}, {1, 2})}, {"y", array({1, 2}, {1, 2})}})),
            "name.npz: the model has no input named y; its inputs are x f32[1,2], ids i64[3]");
  EXPECT_EQ(fault(npz("lacks.npz", {{"x", array({1, 2}, {1, 2})}})),
            "lacks.npz: there is no array for input ids; the inputs are x f32[1,2], ids i64[3]");
  ASSERT_TRUE(write_file(path("two.npy"), write_npy(array({1, 2}, {3, 4}))));
  EXPECT_EQ(fault(path("two.npy")),
            "two.npy: the model has 2 inputs (x f32[1,2], ids i64[3]); give .npz files with an array for each");
  NpyArray ids{"<i8", {2, 3}, Buffer(48)};
  EXPECT_EQ(fault(npz("counts.npz", {{"x", array({1, 2}, {1, 2})}, {"ids", ids}})),
            "counts.npz: x holds 1 samples and ids holds 2");
  EXPECT_NE(fault(path("absent.npz")), "");
}

TEST_F(SamplesTest, broken_files_are_an_error_and_not_a_crash) {
  Result<Buffer> whole = write_npz({{"x", array({1, 2}, {1, 2})}});
  ASSERT_TRUE(whole);
  for (size_t length = 0; length < whole->size(); length += 7) {
    ASSERT_TRUE(write_file(path("cut.npz"), Bytes(*whole).first(length)));
    EXPECT_NE(fault(path("cut.npz")), "");
  }
}

TEST_F(SamplesTest, reads_images_with_mean_and_std) {
  std::string ppm = "P6\n# two by two\n2 2\n255\n";
  for (int i = 0; i < 12; ++i) ppm += static_cast<char>(20 * i);
  ASSERT_TRUE(write_file(path("a.ppm"), ppm));
  ASSERT_TRUE(write_file(path("b.PPM"), ppm));
  SampleOptions options;
  options.mean = {0.5, 0.5, 0.5};
  options.std = {0.25};
  graph_ = Graph();
  graph_.add_input({DType::F32, {1, 3, 2, 2}, {}}, "image", {Port::Role::User, "image", {}});
  Result<Samples> samples = load_samples(folder_.string(), graph_, options);
  ASSERT_TRUE(samples) << samples.error().message;
  ASSERT_EQ(samples->inputs.size(), 2u);
  for (const Sample& sample : samples->inputs) {
    EXPECT_EQ(sample[0].shape, (Shape{1, 3, 2, 2}));
    EXPECT_NEAR(sample[0].as<float>()[0], -2.0f, 1e-6f);
    EXPECT_NEAR(sample[0].as<float>()[1], (60 / 255.0f - 0.5f) / 0.25f, 1e-5f);  // the second pixel's red
    EXPECT_NEAR(sample[0].as<float>()[4], (20 / 255.0f - 0.5f) / 0.25f, 1e-5f);  // the first pixel's green
  }
  options.mean = {0.5, 0.5};
  EXPECT_EQ(fault(path("a.ppm"), options), "the image mean and std need one value, or one for each of the 3 channels");
  options.mean = {0.5};
  options.std = {0};
  EXPECT_EQ(fault(path("a.ppm"), options), "the image std must be above zero");
}

TEST_F(SamplesTest, resizes_images_to_the_input) {
  ASSERT_TRUE(write_file(path("a.pgm"), std::string_view("P5 4 2 255 \x00\x10\x20\x30\x00\x10\x20\x30", 19)));
  graph_ = Graph();
  graph_.add_input({DType::F32, {1, 1, 2, 2}, {}}, "image", {Port::Role::User, "image", {}});
  Result<Samples> samples = load_samples(path("a.pgm"), graph_);
  ASSERT_TRUE(samples) << samples.error().message;
  EXPECT_NEAR(samples->inputs[0][0].as<float>()[0], 16 / 255.0f, 1e-6f) << "the middle of four columns";
  EXPECT_NEAR(samples->inputs[0][0].as<float>()[1], 32 / 255.0f, 1e-6f);
  graph_ = Graph();
  graph_.add_input({DType::F32, {1, 4, 2, 2}, {}}, "image", {Port::Role::User, "image", {}});
  EXPECT_EQ(fault(path("a.pgm")),
            "a.pgm: an image cannot be given to input image f32[1,4,2,2]; images fit [1,3,H,W] and [1,1,H,W]");
}

}  // namespace
}  // namespace swoop
