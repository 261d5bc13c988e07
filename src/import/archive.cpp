#include "import/archive.h"

#include <algorithm>
#include <cstring>

#include "import/refuse.h"

namespace swoop {

namespace {

constexpr std::string_view kSaveAgain =
    "load it with the version that made it and save it again with torch.export.save of torch 2.9 or newer";
constexpr int64_t kSchemaMajor = 8;  // torch.export's schema since 2.6; the reader of PyTorch wants the same major too

std::string_view trim(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r' || text.back() == ' ')) text.remove_suffix(1);
  return text;
}

std::string_view base_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }

// The last element that a strided view reaches, plus one. The sizes are sane; strides and offset come from the file as
// they are.
uint64_t reach(const TensorMeta& meta, std::string_view fqn) {
  int64_t last = meta.offset;
  bool broken = meta.offset < 0;
  for (size_t i = 0; i < meta.type.shape.size(); ++i) {
    if (meta.type.shape[i] == 0) return 0;
    int64_t step = 0;
    broken |= meta.strides[i] < 0 || __builtin_mul_overflow(meta.type.shape[i] - 1, meta.strides[i], &step) ||
              __builtin_add_overflow(last, step, &last);
  }
  if (broken || last < 0) malformed("The weight `{}` has strides or an offset that make no sense.", fqn);
  return static_cast<uint64_t>(last) + 1;
}

// Row-major copy of a strided view.
void copy_strided(const TensorMeta& meta, Bytes storage, std::byte* to) {
  size_t element = byte_size(meta.type.dtype);
  const Shape& shape = meta.type.shape;
  std::vector<int64_t> index(shape.size(), 0);
  int64_t count = element_count(shape);
  int64_t at = meta.offset;
  for (int64_t i = 0; i < count; ++i) {
    std::memcpy(to + static_cast<size_t>(i) * element, storage.data() + static_cast<size_t>(at) * element, element);
    for (size_t d = shape.size(); d-- > 0;) {
      at += meta.strides[d];
      if (++index[d] < shape[d]) break;
      at -= meta.strides[d] * shape[d];
      index[d] = 0;
    }
  }
}

}  // namespace

Archive::Archive(Bytes file, const ImportOptions& options, Graph& owner, Budget& budget)
    : file_(file), owner_(owner), budget_(budget) {
  Result<ZipArchive> zip = ZipArchive::open(file, {options.memory_limit, options.check_crc});
  if (!zip) throw Malformed{zip.error().message};
  zip_ = std::move(*zip);
  root_ = find_root();
  check_layout();
  std::string name = find_model();
  std::string path = fmt::format("{}models/{}.json", root_, name);
  model_ = parse_json(parsers_.emplace_back(), read(entry(path)), file_, "The exported program");
  int64_t major = as_integer(member(member(model_, "schema_version"), "major"), "schema_version");
  if (major != kSchemaMajor)
    malformed(
        "The program is written in version {} of torch.export's schema; this program reads version {}. Please {}.",
        major, kSchemaMajor, kSaveAgain);
  if (zip_.find(fmt::format("{}data/weights/{}.pt", root_, name)))
    malformed("The weights of this file are pickled, as torch 2.8 wrote them. Please {}.", kSaveAgain);
  load_section(weights_, "data/weights/", name, {"_weights_config.json", "_model_param_config.json"});
  load_section(constants_, "data/constants/", name, {"_constants_config.json"});
}

std::string Archive::find_root() const {
  for (const ZipEntry& entry : zip_.entries())
    if (base_name(entry.name) == "archive_format") return std::string(entry.name.substr(0, entry.name.size() - 14));
  for (const ZipEntry& entry : zip_.entries()) {
    if (base_name(entry.name) == "serialized_exported_program.json")
      malformed("This file was saved by torch 2.7 or older. Please {}.", kSaveAgain);
    if (base_name(entry.name) == "data.pkl")
      malformed(
          "This zip was written by torch.save or TorchScript; it holds no exported program. Use torch.export.export "
          "and "
          "torch.export.save.");
  }
  malformed("This zip holds no exported program (it has no archive_format entry). Use torch.export.save to make one.");
}

void Archive::check_layout() {
  if (std::string_view format = small_text("archive_format"); format != "pt2")
    malformed("The archive says it is of format `{}`, not pt2.", format.substr(0, 20));
  if (std::string_view version = small_text("archive_version"); !version.empty() && version != "0")
    malformed("The archive is of version {}; this program reads version 0. Save it again with torch 2.9 to 2.13.",
              version.substr(0, 20));
  if (std::string_view order = small_text("byteorder"); !order.empty() && order != "little")
    malformed("The archive was written on a big-endian machine; save it again on a little-endian one.");
}

std::string_view Archive::small_text(std::string_view name) {
  constexpr uint64_t kEnough = 1024;
  const ZipEntry* found = zip_.find(fmt::format("{}{}", root_, name));
  if (!found) return {};
  if (found->size > kEnough) malformed("The entry `{}` of the archive is far too long.", name);
  return trim(text_of(read(*found)));
}

std::string Archive::find_model() const {
  std::string folder = root_ + "models/";
  std::vector<std::string_view> names;
  for (const ZipEntry& entry : zip_.entries())
    if (entry.name.starts_with(folder) && entry.name.ends_with(".json"))
      names.push_back(entry.name.substr(folder.size(), entry.name.size() - folder.size() - 5));
  if (names.empty())
    malformed("The archive holds no exported program (nothing in models/). Use torch.export.save to make one.");
  if (std::find(names.begin(), names.end(), "model") != names.end()) return "model";
  if (names.size() > 1)
    malformed("The archive holds {} programs, and none is named model; save one of them alone.", names.size());
  return std::string(names.front());
}

const ZipEntry& Archive::entry(std::string_view name) const {
  const ZipEntry* found = zip_.find(name);
  if (!found) malformed("The archive lacks the entry `{}`.", name);
  return *found;
}

Bytes Archive::read(const ZipEntry& entry) {
  Buffer storage;
  Result<Bytes> bytes = zip_.read(entry, storage);
  if (!bytes) throw Malformed{bytes.error().message};
  if (storage.empty()) return *bytes;
  budget_.take(storage.size(), entry.name);
  return owner_.store(std::move(storage));
}

void Archive::load_section(Section& section, std::string_view folder, std::string_view model,
                           std::initializer_list<std::string_view> suffixes) {
  section.folder = fmt::format("{}{}", root_, folder);
  for (std::string_view suffix : suffixes) {
    const ZipEntry* found = zip_.find(fmt::format("{}{}{}", section.folder, model, suffix));
    if (!found) continue;
    section.config = parse_json(parsers_.emplace_back(), read(*found), file_, fmt::format("The list of {}", folder));
    for (auto [fqn, payload] : as_object(member(section.config, "config"), "config"))
      if (!section.entries.emplace(fqn, payload).second) malformed("The archive lists the weight `{}` twice.", fqn);
    return;
  }
  if (folder == "data/weights/")
    malformed("The archive has no list of weights ({}{}{}).", folder, model, *suffixes.begin());
}

StoredTensor Archive::tensor(std::string_view fqn, bool persistent) {
  const Section* order[] = {persistent ? &weights_ : &constants_, persistent ? &constants_ : &weights_};
  for (const Section* section : order)
    if (auto at = section->entries.find(fqn); at != section->entries.end()) return load(*section, fqn, at->second);
  malformed("The archive holds no data for the weight `{}`.", fqn);
}

StoredTensor Archive::load(const Section& section, std::string_view fqn, Json payload) {
  if (std::optional<Json> pickled = find(payload, "use_pickle"); pickled && as_flag(*pickled, "use_pickle"))
    malformed(
        "The weight `{}` is pickled (a tensor subclass): unpickling runs code from the file, so it is refused. Convert "
        "it to a plain tensor before export.",
        fqn);
  TensorMeta meta = read_meta(member(payload, "tensor_meta"), Symbols(), fqn);
  std::string_view path = as_text(member(payload, "path_name"), "path_name");
  const ZipEntry& stored = entry(fmt::format("{}{}", section.folder, path));
  auto [known, fresh] = payloads_.try_emplace(stored.name);
  if (fresh) known->second = read(stored);
  Bytes storage = known->second;

  size_t element = byte_size(meta.type.dtype);
  uint64_t size = static_cast<uint64_t>(checked_count(meta.type.shape, fqn)) * element;
  if (size == 0) return {meta.type, Bytes(), meta.complex};
  if (storage.empty()) {  // saved from fake tensors: all zeros
    budget_.take(size, fqn);
    return {meta.type, owner_.store(Buffer(size)), meta.complex};
  }
  if (meta.strides.size() != meta.type.shape.size()) malformed("The weight `{}` has no strides.", fqn);
  uint64_t end = reach(meta, fqn);
  if (end > storage.size() / element)
    malformed("The weight `{}` needs {} elements of {} bytes, but its data has only {} bytes.", fqn, end, element,
              storage.size());
  bool clean = meta.type.dtype != DType::Bool ||  // C++ knows no third truth value: refuse to let one in
               std::all_of(storage.begin(), storage.end(), [](std::byte b) { return b <= std::byte{1}; });
  if (!clean) malformed("The weight `{}` is boolean, but its data holds other values than 0 and 1.", fqn);
  bool aligned = reinterpret_cast<uintptr_t>(storage.data()) % element == 0;
  if (meta.contiguous() && aligned)
    return {meta.type, storage.subspan(static_cast<size_t>(meta.offset) * element, size), meta.complex};
  budget_.take(size, fqn);
  Buffer copy(size);
  copy_strided(meta, storage, copy.data());
  return {meta.type, owner_.store(std::move(copy)), meta.complex};
}

}  // namespace swoop
