// The map of layers as bytes, and back. The bytes come from a file, so nothing in them is trusted.
#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <utility>

#include "stream/stream.h"
#include "support/deflate.h"

namespace swoop {
namespace {

constexpr uint64_t kVersion = 3;
// Bounds on what a damaged file can make us allocate.
constexpr uint64_t kMaxRank = 16;
constexpr uint64_t kMaxText = 512;
constexpr uint64_t kMaxLayers = 1 << 16;
constexpr uint64_t kMaxMoves = 1 << 20;  // of all layers
constexpr uint64_t kMaxInflated = uint64_t{1} << 26;
constexpr int64_t kMaxElements = int64_t{1} << 31;

// Numbers in groups of 7 bits, the lowest first; the high bit says that more follow. Signed ones are zigzag.
class Writer {
 public:
  void number(uint64_t value) {
    for (; value >= 0x80; value >>= 7) out_ += static_cast<char>(value | 0x80);
    out_ += static_cast<char>(value);
  }
  void integer(int64_t value) { number((static_cast<uint64_t>(value) << 1) ^ static_cast<uint64_t>(value >> 63)); }
  template <typename Bits>
  void bits(Bits value) {
    for (size_t i = 0; i < sizeof(Bits); ++i) out_ += static_cast<char>(value >> (8 * i));
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
  void raw(std::string_view bytes) { out_ += bytes; }
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
  template <typename Bits>
  Bits bits() {
    Bits value = 0;
    const std::string_view bytes = take(sizeof(Bits));
    for (size_t i = 0; i < bytes.size(); ++i) value |= Bits{static_cast<uint8_t>(bytes[i])} << (8 * i);
    return value;
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
  std::string_view rest() const { return left_; }

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

constexpr std::string MappedLayer::*kTexts[] = {&MappedLayer::name, &MappedLayer::op, &MappedLayer::source,
                                                &MappedLayer::dtype, &MappedLayer::value};

// How a scale and a zero point are written.
constexpr uint64_t kNoQuant = 0, kFloatScale = 1, kDoubleScale = 2;

void write_quant(Writer& out, const MappedLayer& layer) {
  if (!layer.quant) return out.number(kNoQuant);
  const auto [scale, zero_point] = *layer.quant;
  const auto single = static_cast<float>(scale);
  out.number(single == scale ? kFloatScale : kDoubleScale);
  if (single == scale)
    out.bits(std::bit_cast<uint32_t>(single));
  else
    out.bits(std::bit_cast<uint64_t>(scale));
  out.integer(zero_point);
}

void write_moves(Writer& out, const MappedLayer& layer) {
  out.number(layer.moves.size());
  for (const MappedLayer::Move& move : layer.moves) {
    out.number(move.transpose);
    out.list(move.to);
  }
}

// Things that repeat: each is written once, in the order of first use.
class Table {
 public:
  int64_t number_of(std::string entry) {
    auto [known, fresh] = numbers_.try_emplace(std::move(entry), static_cast<int64_t>(numbers_.size()));
    if (fresh) bytes_ += known->first;
    return known->second;
  }
  void write(Writer& out) const {
    out.number(numbers_.size());
    out.raw(bytes_);
  }

 private:
  std::map<std::string, int64_t> numbers_;
  std::string bytes_;
};

// A text as what is before its last number, and that number: names of layers and lines of sources count up.
struct Numbered {
  std::string_view stem;
  std::optional<int64_t> number;  // without leading zeros
};

Numbered numbered(std::string_view text) {
  constexpr size_t kMostDigits = 9;
  size_t first = text.size();
  for (size_t i = text.size(); i-- > 0 && text.size() - i <= kMostDigits && text[i] >= '0' && text[i] <= '9';)
    if (text[i] != '0' || i + 1 == text.size()) first = i;
  if (first == text.size()) return {text, {}};
  int64_t number = 0;
  for (char digit : text.substr(first)) number = 10 * number + (digit - '0');
  return {text.substr(0, first), number};
}

// Texts, each written once. Of a number only the step from the last one after the same stem: in layers that repeat
// these are the same, which deflate likes.
class Texts {
 public:
  int64_t number_of(std::string_view text) {
    auto [known, fresh] = numbers_.try_emplace(std::string(text), static_cast<int64_t>(numbers_.size()));
    if (fresh) add(known->first.substr(0, kMaxText));
    return known->second;
  }
  void write(Writer& out) {
    out.number(numbers_.size());
    out.raw(bytes_.take());
  }

 private:
  void add(std::string_view text) {
    const auto [stem, number] = numbered(text);
    bytes_.text(stem);
    bytes_.number(number.has_value());
    if (number) bytes_.integer(*number - std::exchange(last_[std::string(stem)], *number));
  }

  std::map<std::string, int64_t> numbers_, last_;
  Writer bytes_;
};

std::vector<std::string> read_texts(Reader& in) {
  std::vector<std::string> texts;
  std::map<std::string, int64_t> last;
  const uint64_t count = in.count();
  for (uint64_t i = 0; i < count && in.good(); ++i) {
    std::string& text = texts.emplace_back(in.text());
    const uint64_t counts = in.number();
    in.require(counts <= 1);
    if (counts != 1) continue;
    const int64_t step = in.integer();
    int64_t& number = last[text];
    in.require(step >= -number && step <= INT32_MAX - number);
    if (in.good()) text += std::to_string(number += step);
  }
  return texts;
}

template <typename Write>
std::string bytes_by(Write write) {
  Writer out;
  write(out);
  return out.take();
}

// As steps from one number to the next: most of them are the same, which deflate likes.
void write_column(Writer& out, const std::vector<int64_t>& column) {
  int64_t last = 0;
  for (int64_t number : column) out.integer(number - std::exchange(last, number));
}

// One number per layer, each of an entry in a table of `entries`.
std::vector<size_t> read_column(Reader& in, uint64_t layers, size_t entries) {
  std::vector<size_t> column;
  int64_t number = 0;
  for (uint64_t i = 0; i < layers && in.good(); ++i) {
    const int64_t step = in.integer();
    in.require(step >= -number && step < static_cast<int64_t>(entries) - number);
    if (in.good()) column.push_back(static_cast<size_t>(number += step));
  }
  return column;
}

template <typename Read>
auto read_table(Reader& in, Read read) {
  std::vector<decltype(read())> entries;
  const uint64_t count = in.count();
  for (uint64_t i = 0; i < count && in.good(); ++i) entries.push_back(read());
  return entries;
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

std::optional<std::pair<double, int64_t>> read_quant(Reader& in) {
  const uint64_t kind = in.number();
  in.require(kind <= kDoubleScale);
  if (kind == kNoQuant) return {};
  const double scale =
      kind == kFloatScale ? std::bit_cast<float>(in.bits<uint32_t>()) : std::bit_cast<double>(in.bits<uint64_t>());
  in.require(std::isfinite(scale));
  return std::pair(scale, in.integer());
}

std::vector<MappedLayer::Move> read_moves(Reader& in) {
  std::vector<MappedLayer::Move> moves;
  const uint64_t count = in.count();
  for (uint64_t i = 0; i < count && in.good(); ++i) {
    const bool transpose = in.number() != 0;
    moves.push_back({transpose, in.list()});
    in.require(!transpose || is_permutation_of_axes(moves.back().to));
  }
  return moves;
}

std::string pack_columns(const LayerMap& map) {
  Texts texts;
  Table shapes, quants, moves;
  std::vector<int64_t> text_columns[std::size(kTexts)], shape_column, quant_column, move_column;
  for (const MappedLayer& layer : map.layers) {
    for (size_t t = 0; t < std::size(kTexts); ++t) text_columns[t].push_back(texts.number_of(layer.*kTexts[t]));
    shape_column.push_back(shapes.number_of(bytes_by([&](Writer& out) { out.list(layer.shape); })));
    quant_column.push_back(quants.number_of(bytes_by([&](Writer& out) { write_quant(out, layer); })));
    move_column.push_back(moves.number_of(bytes_by([&](Writer& out) { write_moves(out, layer); })));
  }
  Writer out;
  texts.write(out);
  for (const Table* table : {&shapes, &quants, &moves}) table->write(out);
  out.number(map.layers.size());
  for (const std::vector<int64_t>& column : text_columns) write_column(out, column);
  for (const std::vector<int64_t>* column : {&shape_column, &quant_column, &move_column}) write_column(out, *column);
  for (size_t i = 0; i < map.layers.size(); ++i) {  // 0: in no other layer; none is in itself
    const std::optional<uint32_t>& inside = map.layers[i].inside;
    out.integer(inside ? int64_t{*inside} - static_cast<int64_t>(i) : 0);
  }
  out.number(map.operations.size());
  uint32_t position = 0;
  for (const StreamOperation& operation : map.operations)
    out.number(operation.position - std::exchange(position, operation.position));
  int64_t layer = 0;
  for (const StreamOperation& operation : map.operations)
    out.integer(2 * (int64_t{operation.layer} - std::exchange(layer, operation.layer)) + operation.result);
  return out.take();
}

void read_layers(Reader& in, LayerMap& map) {
  const std::vector<std::string> texts = read_texts(in);
  const auto shapes = read_table(in, [&] { return in.list(); });
  const auto quants = read_table(in, [&] { return read_quant(in); });
  const auto moves = read_table(in, [&] { return read_moves(in); });
  for (const std::vector<int64_t>& shape : shapes) in.require(elements(shape) > 0);
  const uint64_t count = in.count();
  in.require(count <= kMaxLayers);
  if (!in.good()) return;
  map.layers.resize(count);
  for (auto member : kTexts) {
    const std::vector<size_t> column = read_column(in, count, texts.size());
    for (size_t i = 0; i < column.size(); ++i) map.layers[i].*member = texts[column[i]];
  }
  const std::vector<size_t> shape_column = read_column(in, count, shapes.size());
  const std::vector<size_t> quant_column = read_column(in, count, quants.size());
  const std::vector<size_t> move_column = read_column(in, count, moves.size());
  uint64_t move_count = 0;
  for (size_t i = 0; i < count && in.good(); ++i) {
    MappedLayer& layer = map.layers[i];
    layer.shape = shapes[shape_column[i]];
    layer.quant = quants[quant_column[i]];
    move_count += moves[move_column[i]].size();
    in.require(move_count <= kMaxMoves);
    if (!in.good()) return;
    layer.moves = moves[move_column[i]];
    for (const MappedLayer::Move& move : layer.moves)
      in.require(move.transpose || elements(move.to) == elements(layer.shape));
    const int64_t distance = in.integer();
    const auto at = static_cast<int64_t>(i);
    in.require(distance >= -at && distance < static_cast<int64_t>(count) - at);
    if (in.good() && distance != 0) layer.inside = static_cast<uint32_t>(at + distance);
  }
}

void read_operations(Reader& in, LayerMap& map) {
  const uint64_t count = in.count();
  uint64_t position = 0;
  for (uint64_t i = 0; i < count && in.good(); ++i) {
    const uint64_t distance = in.number();
    in.require(distance <= UINT32_MAX && (i == 0 || distance > 0));
    if (in.good()) position += distance;
    in.require(position <= UINT32_MAX);
    map.operations.push_back({static_cast<uint32_t>(position), 0, false});
  }
  int64_t layer = 0;
  for (StreamOperation& operation : map.operations) {
    const int64_t step = in.integer();
    constexpr int64_t kFar = 2 * static_cast<int64_t>(kMaxLayers);
    in.require(step >= -kFar && step <= kFar);
    if (!in.good()) return;
    layer += step >> 1;
    in.require(layer >= 0 && static_cast<uint64_t>(layer) < map.layers.size());
    operation.layer = static_cast<uint32_t>(layer);
    operation.result = (step & 1) != 0;
  }
}

}  // namespace

std::string pack_layers(const LayerMap& map) {
  uint64_t moves = 0;
  for (const MappedLayer& layer : map.layers) moves += layer.moves.size();
  if (map.layers.size() > kMaxLayers || moves > kMaxMoves) return {};
  const std::string columns = pack_columns(map);
  Writer out;
  out.number(kVersion);
  out.number(columns.size());
  out.raw(text_of(deflated(bytes_of(columns))));
  return out.take();
}

Result<LayerMap> unpack_layers(std::string_view bytes) {
  Reader head(bytes);
  if (head.number() != kVersion) return error("The map of layers is of another version than {}.", kVersion);
  const Error damaged = error("The map of layers in the file is damaged.");
  const uint64_t size = head.number();
  if (!head.good() || size > kMaxInflated || size / kMaxDeflateRatio > head.rest().size()) return damaged;
  Buffer columns(size);
  if (!inflate_into(bytes_of(head.rest()), columns)) return damaged;
  Reader in(text_of(columns));
  LayerMap map;
  read_layers(in, map);
  if (in.good()) read_operations(in, map);
  if (!in.complete()) return damaged;
  return map;
}

}  // namespace swoop
