#include "run/memory.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace swoop::ethos {

namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kLargePart = 256;  // of a page: worth a look at the rest of it

// Calls body(page, first, last) for the parts of [first, last) in each page; it ends when body gives true.
template <typename Body>
void for_each_page(uint64_t first, uint64_t last, const Body& body) {
  while (first < last) {
    const uint64_t page = first / kPage, end = std::min(last, (page + 1) * kPage);
    if (body(page, first, end)) return;
    first = end;
  }
}

}  // namespace

void Region::clear(uint64_t bytes) {
  full.assign(bytes / kPage + 1, 0);
  written.assign(full.size() * kPage, 0);  // whole pages
}

void Region::mark(uint64_t first, uint64_t bytes) {
  for_each_page(first, first + bytes, [&](uint64_t page, uint64_t from, uint64_t to) {
    if (full[page]) return false;
    std::memset(written.data() + from, 1, to - from);
    full[page] = to - from == kPage;
    return false;
  });
}

const uint8_t* Region::hole(uint64_t first, uint64_t bytes) {
  const uint8_t* found = nullptr;
  for_each_page(first, first + bytes, [&](uint64_t page, uint64_t from, uint64_t to) {
    if (full[page]) return false;
    found = static_cast<const uint8_t*>(std::memchr(written.data() + from, 0, to - from));
    if (!found && to - from >= kLargePart) full[page] = std::memchr(written.data() + page * kPage, 0, kPage) == nullptr;
    return found != nullptr;
  });
  return found;
}

void Memory::add_read_only(int region, Bytes bytes) {
  Region& slot = regions_[static_cast<size_t>(region)];
  slot.data = const_cast<std::byte*>(bytes.data());  // writable stays false, so nobody writes through it
  slot.size = bytes.size();
  slot.present = true;
  slot.writable = false;
}

void Memory::add_scratch(int region, Buffer& storage) {
  Region& slot = regions_[static_cast<size_t>(region)];
  slot.data = storage.data();
  slot.size = storage.size();
  slot.present = true;
  slot.writable = true;
  slot.clear(storage.size());
}

void Memory::set_internal_size(uint32_t bytes) {
  internal_storage_.assign(bytes, std::byte{0});
  internal_.data = internal_storage_.data();
  internal_.size = bytes;
  internal_.present = true;
  internal_.writable = true;
  internal_.clear(bytes);
  units_.assign(bytes / kInternalUnit, {});
}

std::string Memory::region_name(int region) {
  return region == kInternalRegion ? "internal memory" : fmt::format("region {}", region);
}

Result<Region*> Memory::find(int region, int64_t first, uint64_t size, const char* what) const {
  Region* found = nullptr;
  if (region == kInternalRegion)
    found = &internal_;
  else if (region >= 0 && region < kNpuRegionCount)
    found = &regions_[static_cast<size_t>(region)];
  if (found == nullptr || !found->present)
    return error("{} uses {}, which the program does not have.", what, region_name(region));
  if (first < 0 || static_cast<uint64_t>(first) > found->size || size > found->size - static_cast<uint64_t>(first))
    return error("{} touches bytes {} to {} of {}, which has {}.", what, first, first + static_cast<int64_t>(size),
                 region_name(region), found->size);
  return found;
}

Result<const std::byte*> Memory::readable(int region, int64_t first, uint64_t size, const char* what) const {
  return readable(region, Runs{first, size}, what);
}

Result<std::byte*> Memory::writable(int region, int64_t first, uint64_t size, const char* what) {
  return writable(region, Runs{first, size}, what);
}

Result<const std::byte*> Memory::readable(int region, const Runs& runs, const char* what) const {
  TRY_ASSIGN(Region * found, find(region, runs.first, runs.reach(), what));
  if (runs.size == 0) return found->data + runs.first;
  const auto first = static_cast<uint64_t>(runs.first);
  for (int i = 0; !found->written.empty() && i < runs.count; ++i)
    if (const uint8_t* hole = found->hole(first + static_cast<uint64_t>(i * runs.step), runs.size))
      return error("{} reads byte {} of {}, which was never written.", what, hole - found->written.data(),
                   region_name(region));
  note(false, what, region, first, first + runs.reach());
  return found->data + first;
}

Result<std::byte*> Memory::writable(int region, const Runs& runs, const char* what) {
  TRY_ASSIGN(Region * found, find(region, runs.first, runs.reach(), what));
  if (!found->writable) return error("{} writes to {}, which is read-only.", what, region_name(region));
  if (runs.size == 0) return found->data + runs.first;
  const auto first = static_cast<uint64_t>(runs.first);
  for (int i = 0; i < runs.count; ++i) found->mark(first + static_cast<uint64_t>(i * runs.step), runs.size);
  note(true, what, region, first, first + runs.reach());
  return found->data + first;
}

std::optional<uint32_t> Memory::read_table(int64_t first, uint64_t size) {
  const auto units = std::span(units_).subspan(static_cast<uint64_t>(first) / kInternalUnit, size / kInternalUnit);
  uint32_t early = 0, latest = 0;
  for (const Unit& unit : units) {
    early = std::max(early, unit.overwritten_by);
    latest = std::max(latest, unit.brought_by);
  }
  const bool mixed = std::ranges::any_of(units, [&](const Unit& unit) { return unit.brought_by != latest; });
  if (early == 0 && mixed) early = latest;
  for (Unit& unit : units) {
    unit.read = early == 0;  // else this is the table before, and theirs is still to be read
    unit.overwritten_by = 0;
  }
  return early == 0 ? std::nullopt : std::optional(early);
}

Result<void> Memory::copy(int from, int64_t source, int to, int64_t destination, uint64_t size) {
  TRY_ASSIGN(const Region* reader, find(from, source, size, "The transfer's source"));
  TRY_ASSIGN(Region * writer, find(to, destination, size, "The transfer's destination"));
  if (!writer->writable) return error("The transfer writes to {}, which is read-only.", region_name(to));
  // Bytes copied onto themselves stay what they are, in whatever order they are read and written.
  const bool onto_itself = from == to && source == destination;
  if (from == to && !onto_itself && source < destination + static_cast<int64_t>(size) &&
      destination < source + static_cast<int64_t>(size))
    return error("The transfer's source (byte {}) and destination (byte {}) overlap in {}.", source, destination,
                 region_name(from));
  if (size == 0) return {};
  if (to == kInternalRegion)
    for (uint64_t at = 0; at < size; at += kInternalUnit) {
      const auto place = static_cast<uint64_t>(destination) + at;
      Unit& unit = units_[place / kInternalUnit];
      const bool changes = std::memcmp(writer->data + place, reader->data + source + at, kInternalUnit) != 0;
      if (!unit.read && changes && unit.overwritten_by == 0) unit.overwritten_by = transfer_;
      unit = {transfer_, unit.overwritten_by, false};
    }
  if (!onto_itself) {
    std::memcpy(writer->data + destination, reader->data + source, size);
    const auto first = static_cast<uint64_t>(destination);
    if (reader->written.empty()) {
      writer->mark(first, size);
    } else {
      std::memcpy(writer->written.data() + first, reader->written.data() + source, size);
      for_each_page(first, first + size, [&](uint64_t page, uint64_t, uint64_t) {
        writer->full[page] = 0;
        return false;
      });
    }
  }
  note(false, "", from, static_cast<uint64_t>(source), static_cast<uint64_t>(source) + size);
  note(true, "", to, static_cast<uint64_t>(destination), static_cast<uint64_t>(destination) + size);
  return {};
}

void Memory::mark_written(int region, uint64_t first, uint64_t size) {
  Region& slot = regions_[static_cast<size_t>(region)];
  if (!slot.written.empty() && size > 0) slot.mark(first, size);
}

Bytes Memory::region_bytes(int region) const {
  const Region& slot = regions_[static_cast<size_t>(region)];
  return {slot.data, slot.size};
}

void Memory::note(bool write, const char* what, int region, uint64_t first, uint64_t last) const {
  for (Access& access : touched_)
    if (access.write == write && access.range.region == region && access.what == what) {
      access.range = {region, std::min(access.range.first, first), std::max(access.range.last, last)};
      access.touched += last - first;
      return;
    }
  touched_.push_back({{region, first, last}, write, what, last - first});
}

Accesses Memory::take_accesses() { return std::exchange(touched_, {}); }

}  // namespace swoop::ethos
