// The map of layers as bytes, and back. The bytes come from a file, so nothing in them is trusted.
#include <algorithm>
#include <bit>
#include <cmath>
#include <map>

#include "stream/stream.h"

namespace swoop {
namespace {

constexpr uint64_t kVersion = 1;
// Bounds on what a damaged file can make us allocate.
constexpr uint64_t kMaxRank = 16;
constexpr uint64_t kMaxText = 512;
constexpr uint64_t kMaxLayers = 1 << 16;
constexpr int64_t kMaxElements = int64_t{1} << 31;

// Numbers in groups of 7 bits, the lowest first; the high bit says that more follow. Signed ones are zigzag.
class Writer {
 public:
  void number(uint64_t value) {
    for (; value >= 0x80; value >>= 7) out_ += static_cast<char>(value | 0x80);
    out_ += static_cast<char>(value);
  }
  void integer(int64_t value) { number((static_cast<uint64_t>(value) << 1) ^ static_cast<uint64_t>(value >> 63)); }
  void real(double value) {
    const auto bits = std::bit_cast<uint64_t>(value);
    for (int i = 0; i < 8; ++i) out_ += static_cast<char>(bits >> (8 * i));
  }
  void text(std::string_view value) {
    value = value.substr(0, kMaxText);
    number(value.size());
    out_ += value;
  }
  void list(const std::vector<int64_t>& values) {
    number(values.size());
    for (int64_t value : values) integer(value);
  }
  std::string take() { return std::move(out_); }

 private:
  std::string out_;
};

class Reader {
 public:
  explicit Reader(std::string_view bytes) : left_(bytes) {}

  uint64_t number() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (left_.empty()) break;
      const auto byte = static_cast<uint8_t>(left_.front());
      left_.remove_prefix(1);
      value |= uint64_t{byte & 0x7fu} << shift;
      if (byte < 0x80) return value;
    }
    good_ = false;
    return 0;
  }
  int64_t integer() {
    const uint64_t value = number();
    return static_cast<int64_t>((value >> 1) ^ (~(value & 1) + 1));
  }
  double real() {
    uint64_t bits = 0;
    const std::string_view bytes = take(8);
    for (size_t i = 0; i < bytes.size(); ++i) bits |= uint64_t{static_cast<uint8_t>(bytes[i])} << (8 * i);
    return std::bit_cast<double>(bits);
  }
  std::string_view text() {
    const uint64_t size = number();
    require(size <= kMaxText);
    return take(size);
  }
  std::vector<int64_t> list() {
    const uint64_t count = number();
    good_ = good_ && count <= kMaxRank;
    std::vector<int64_t> values;
    for (uint64_t i = 0; i < count && good_; ++i) values.push_back(integer());
    return values;
  }
  // Of things that take at least a byte each: a count beyond what is left is damage, not a reason to allocate.
  uint64_t count() {
    const uint64_t value = number();
    good_ = good_ && value <= left_.size();
    return good_ ? value : 0;
  }
  void require(bool condition) { good_ = good_ && condition; }
  bool good() const { return good_; }
  bool complete() const { return good_ && left_.empty(); }

 private:
  std::string_view take(uint64_t size) {
    good_ = good_ && size <= left_.size();
    if (!good_) return {};
    const std::string_view part = left_.substr(0, size);
    left_.remove_prefix(size);
    return part;
  }

  std::string_view left_;
  bool good_ = true;
};

constexpr uint64_t kQuantized = 1, kInside = 2;  // flags of a layer

constexpr std::string MappedLayer::*kTexts[] = {&MappedLayer::name, &MappedLayer::op, &MappedLayer::source,
                                                &MappedLayer::dtype, &MappedLayer::value};

void write_layer(Writer& out, const MappedLayer& layer, const std::map<std::string_view, uint64_t>& texts) {
  for (auto member : kTexts) out.number(texts.at(layer.*member));
  out.number((layer.quant ? kQuantized : 0) | (layer.inside ? kInside : 0));
  out.list(layer.shape);
  if (layer.quant) {
    out.real(layer.quant->first);
    out.integer(layer.quant->second);
  }
  if (layer.inside) out.number(*layer.inside);
  out.number(layer.moves.size());
  for (const MappedLayer::Move& move : layer.moves) {
    out.number(move.transpose);
    out.list(move.to);
  }
}

// 0: a dimension is not positive, or there are too many elements.
int64_t elements(const std::vector<int64_t>& shape) {
  int64_t count = 1;
  for (int64_t size : shape) {
    if (size < 1 || size > kMaxElements / count) return 0;
    count *= size;
  }
  return count;
}

bool is_permutation_of_axes(const std::vector<int64_t>& perm) {
  std::vector<int64_t> sorted = perm;
  std::sort(sorted.begin(), sorted.end());
  for (size_t i = 0; i < sorted.size(); ++i)
    if (sorted[i] != static_cast<int64_t>(i)) return false;
  return true;
}

MappedLayer read_layer(Reader& in, const std::vector<std::string_view>& texts, uint64_t layers) {
  MappedLayer layer;
  for (auto member : kTexts) {
    const uint64_t index = in.number();
    in.require(index < texts.size());
    if (in.good()) layer.*member = texts[index];
  }
  const uint64_t flags = in.number();
  in.require(flags <= (kQuantized | kInside));
  layer.shape = in.list();
  in.require(elements(layer.shape) > 0);
  if (flags & kQuantized) {
    const double scale = in.real();
    in.require(std::isfinite(scale));
    layer.quant.emplace(scale, in.integer());
  }
  if (flags & kInside) {
    layer.inside = static_cast<uint32_t>(in.number());
    in.require(*layer.inside < layers);
  }
  const uint64_t moves = in.count();
  for (uint64_t i = 0; i < moves && in.good(); ++i) {
    const bool transpose = in.number() != 0;
    layer.moves.push_back({transpose, in.list()});
    const std::vector<int64_t>& to = layer.moves.back().to;
    in.require(transpose ? is_permutation_of_axes(to) : elements(to) == elements(layer.shape));
  }
  return layer;
}

}  // namespace

std::string pack_layers(const LayerMap& map) {
  if (map.layers.size() > kMaxLayers) return {};
  std::map<std::string_view, uint64_t> texts;
  for (const MappedLayer& layer : map.layers)
    for (auto member : kTexts) texts[layer.*member];
  Writer out;
  out.number(kVersion);
  out.number(texts.size());
  uint64_t next = 0;
  for (auto& [text, index] : texts) {
    index = next++;
    out.text(text);
  }
  out.number(map.layers.size());
  for (const MappedLayer& layer : map.layers) write_layer(out, layer, texts);
  out.number(map.operations.size());
  uint32_t position = 0;
  int64_t layer = 0;
  for (const StreamOperation& operation : map.operations) {
    out.number(operation.position - position);
    out.integer(2 * (int64_t{operation.layer} - layer) + operation.result);
    position = operation.position;
    layer = operation.layer;
  }
  return out.take();
}

Result<LayerMap> unpack_layers(std::string_view bytes) {
  Reader in(bytes);
  if (in.number() != kVersion) return error("The map of layers is of another version than {}.", kVersion);
  std::vector<std::string_view> texts;
  const uint64_t text_count = in.count();
  for (uint64_t i = 0; i < text_count && in.good(); ++i) texts.push_back(in.text());
  LayerMap map;
  const uint64_t layer_count = in.count();
  in.require(layer_count <= kMaxLayers);
  for (uint64_t i = 0; i < layer_count && in.good(); ++i) map.layers.push_back(read_layer(in, texts, layer_count));
  const uint64_t operation_count = in.count();
  uint64_t position = 0;
  int64_t layer = 0;
  for (uint64_t i = 0; i < operation_count && in.good(); ++i) {
    const uint64_t distance = in.number();
    const int64_t step = in.integer();
    constexpr int64_t kFar = 2 * static_cast<int64_t>(kMaxLayers);
    in.require(distance <= UINT32_MAX && (i == 0 || distance > 0) && step >= -kFar && step <= kFar);
    if (!in.good()) break;
    position += distance;
    layer += step >> 1;
    in.require(position <= UINT32_MAX && layer >= 0 && static_cast<uint64_t>(layer) < layer_count);
    map.operations.push_back({static_cast<uint32_t>(position), static_cast<uint32_t>(layer), (step & 1) != 0});
  }
  if (!in.complete()) return error("The map of layers in the file is damaged.");
  return map;
}

}  // namespace swoop
