#include "support/npy.h"

#include <charconv>
#include <optional>

namespace swoop {

namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kMaxRank = 32;  // NumPy's own limit

// The header is a Python dictionary literal of three known keys; this reads just that.
class HeaderParser {
 public:
  explicit HeaderParser(std::string_view text) : rest_(text) {}

  bool parse(NpyArray& array, bool& column_order) {
    if (!take('{')) return false;
    bool has_dtype = false;
    bool has_order = false;
    bool has_shape = false;
    while (!take('}')) {
      std::optional<std::string_view> key = quoted();
      if (!key || !take(':')) return false;
      if (*key == "descr") {
        std::optional<std::string_view> dtype = quoted();
        if (!dtype) return false;
        array.dtype = *dtype;
        has_dtype = true;
      } else if (*key == "fortran_order") {
        column_order = word("True");
        if (!column_order && !word("False")) return false;
        has_order = true;
      } else if (*key == "shape") {
        if (!shape(array.shape)) return false;
        has_shape = true;
      } else {
        return false;
      }
      take(',');
    }
    return has_dtype && has_order && has_shape;
  }

 private:
  void skip_space() {
    while (!rest_.empty() && (rest_[0] == ' ' || rest_[0] == '\n')) rest_.remove_prefix(1);
  }
  bool word(std::string_view text) {
    skip_space();
    if (!rest_.starts_with(text)) return false;
    rest_.remove_prefix(text.size());
    return true;
  }
  bool take(char c) { return word(std::string_view(&c, 1)); }
  std::optional<std::string_view> quoted() {
    skip_space();
    if (rest_.empty() || (rest_[0] != '\'' && rest_[0] != '"')) return std::nullopt;
    size_t end = rest_.find(rest_[0], 1);
    if (end == std::string_view::npos) return std::nullopt;
    std::string_view text = rest_.substr(1, end - 1);
    rest_.remove_prefix(end + 1);
    return text;
  }
  bool shape(std::vector<int64_t>& sizes) {
    if (!take('(')) return false;
    while (!take(')')) {
      skip_space();
      int64_t size = 0;
      auto [end, problem] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), size);
      if (problem != std::errc() || size < 0 || sizes.size() == kMaxRank) return false;
      rest_.remove_prefix(static_cast<size_t>(end - rest_.data()));
      sizes.push_back(size);
      take(',');
    }
    return true;
  }

  std::string_view rest_;
};

// Column order to row order.
Buffer transposed(Bytes data, const std::vector<int64_t>& shape, size_t element) {
  Buffer out(data.size());
  size_t count = data.size() / element;
  std::vector<size_t> index(shape.size());
  for (size_t at = 0; at < count; ++at) {
    size_t from = 0;
    for (size_t d = shape.size(); d-- > 0;) from = from * static_cast<size_t>(shape[d]) + index[d];
    std::memcpy(out.data() + at * element, data.data() + from * element, element);
    for (size_t d = shape.size(); d-- > 0;) {
      if (++index[d] < static_cast<size_t>(shape[d])) break;
      index[d] = 0;
    }
  }
  return out;
}

}  // namespace

size_t npy_element_bytes(std::string_view dtype) {
  constexpr std::string_view kTypes[] = {"|b1", "|i1", "|u1", "<i2", "<u2", "<i4",
                                         "<u4", "<i8", "<u8", "<f2", "<f4", "<f8"};
  for (std::string_view type : kTypes)
    if (type == dtype) return static_cast<size_t>(type[2] - '0');
  return 0;
}

Result<NpyArray> read_npy(Bytes bytes) {
  constexpr size_t kPrefix = 10;  // magic, version, and at least two bytes of header size
  if (bytes.size() < kPrefix || text_of(bytes.first(6)) != kMagic) return error("This is not a .npy array.");
  auto version = static_cast<unsigned>(bytes[6]);
  if (version < 1 || version > 3) return error("This .npy array has version {}; 1 to 3 are known.", version);
  size_t start = version == 1 ? 10 : 12;
  if (bytes.size() < start) return error("This .npy array is cut short.");
  uint64_t header = version == 1 ? load<uint16_t>(bytes.data() + 8) : load<uint32_t>(bytes.data() + 8);
  if (!contains(bytes, start, header)) return error("This .npy array is cut short.");

  NpyArray array;
  bool column_order = false;
  if (!HeaderParser(text_of(bytes.subspan(start, header))).parse(array, column_order))
    return error("This .npy array's header cannot be read: {}",
                 text_of(bytes.subspan(start, std::min<uint64_t>(header, 100))));
  size_t element = npy_element_bytes(array.dtype);
  if (element == 0)
    return error("This .npy array has elements of type '{}'; plain little-endian numbers are supported.", array.dtype);
  Bytes data = bytes.subspan(start + header);
  uint64_t size = element;
  for (int64_t dimension : array.shape) {
    if (dimension != 0 && size > data.size() / static_cast<uint64_t>(dimension)) size = UINT64_MAX;
    if (size == UINT64_MAX) break;
    size *= static_cast<uint64_t>(dimension);
  }
  // A zero anywhere makes the array empty, whatever the other sizes are.
  for (int64_t dimension : array.shape)
    if (dimension == 0) size = 0;
  if (size > data.size())
    return error("This .npy array is cut short: it has {} bytes of data for its shape.", data.size());
  data = data.first(size);
  array.data = column_order && array.shape.size() > 1 ? transposed(data, array.shape, element)
                                                      : Buffer(data.begin(), data.end());
  return array;
}

Buffer write_npy(const NpyArray& array) {
  std::string shape;
  for (int64_t size : array.shape) shape += fmt::format("{}, ", size);
  if (array.shape.size() > 1) shape.resize(shape.size() - 2);
  if (array.shape.size() == 1) shape.resize(shape.size() - 1);
  std::string header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", array.dtype, shape);
  // NumPy aligns the data to 64 bytes with spaces and ends the header with a newline.
  size_t total = (10 + header.size() + 1 + 63) / 64 * 64;
  header.append(total - 10 - header.size() - 1, ' ');
  header += '\n';
  std::string prefix(kMagic);
  prefix += {'\x01', '\x00', static_cast<char>(header.size() & 0xff), static_cast<char>(header.size() >> 8)};
  prefix += header;
  Buffer out(prefix.size() + array.data.size());
  std::memcpy(out.data(), prefix.data(), prefix.size());
  if (!array.data.empty()) std::memcpy(out.data() + prefix.size(), array.data.data(), array.data.size());
  return out;
}

}  // namespace swoop
