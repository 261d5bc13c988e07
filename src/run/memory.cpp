#include "run/memory.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

namespace swoop::ethos {

namespace {

constexpr uint64_t kWord = 64;    // bytes, whose bits are one number
constexpr uint64_t kPage = 4096;  // bytes, whose bits are counted: most pages are full, and written again and again

// Calls body(place, first, last) for the parts of [first, last) in each unit of so many bytes; it ends when body gives
// true.
template <uint64_t kUnit, typename Body>
bool for_each_part(uint64_t first, uint64_t last, const Body& body) {
  while (first < last) {
    const uint64_t place = first / kUnit, end = std::min(last, (place + 1) * kUnit);
    if (body(place, first, end)) return true;
    first = end;
  }
  return false;
}

// The bits of [first, last) in their word. They must be in one.
uint64_t bits_of(uint64_t first, uint64_t last) {
  return (~uint64_t{0} >> (kWord - (last - first))) << (first % kWord);
}

}  // namespace

void Region::clear(uint64_t bytes) {
  in_page.assign(bytes / kPage + 1, 0);
  written.assign(in_page.size() * (kPage / kWord), 0);
}

void Region::mark(uint64_t first, uint64_t bytes) {
  for_each_part<kPage>(first, first + bytes, [&](uint64_t page, uint64_t from, uint64_t to) {
    if (in_page[page] == kPage) return false;
    return for_each_part<kWord>(from, to, [&](uint64_t word, uint64_t low, uint64_t high) {
      const uint64_t fresh = bits_of(low, high) & ~written[word];
      written[word] |= fresh;
      in_page[page] = static_cast<uint16_t>(in_page[page] + std::popcount(fresh));
      return false;
    });
  });
}

void Region::unmark(uint64_t at) {
  in_page[at / kPage] = static_cast<uint16_t>(in_page[at / kPage] - (written[at / kWord] >> (at % kWord) & 1));
  written[at / kWord] &= ~bits_of(at, at + 1);
}

std::optional<uint64_t> Region::hole(uint64_t first, uint64_t bytes) const {
  std::optional<uint64_t> found;
  for_each_part<kPage>(first, first + bytes, [&](uint64_t page, uint64_t from, uint64_t to) {
    if (in_page[page] == kPage) return false;
    return for_each_part<kWord>(from, to, [&](uint64_t word, uint64_t low, uint64_t high) {
      const uint64_t missing = bits_of(low, high) & ~written[word];
      if (missing) found = word * kWord + static_cast<uint64_t>(std::countr_zero(missing));
      return missing != 0;
    });
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

Result<const Region*> Memory::find(int region, int64_t first, uint64_t size, const char* what) const {
  const Region* found = nullptr;
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

Result<Region*> Memory::find(int region, int64_t first, uint64_t size, const char* what) {
  TRY_ASSIGN(const Region* found, std::as_const(*this).find(region, first, size, what));
  return const_cast<Region*>(found);
}

Result<const std::byte*> Memory::readable(int region, int64_t first, uint64_t size, const char* what) const {
  return readable(region, Runs{first, size}, what);
}

Result<std::byte*> Memory::writable(int region, int64_t first, uint64_t size, const char* what) {
  return writable(region, Runs{first, size}, what);
}

Result<const std::byte*> Memory::readable(int region, const Runs& runs, const char* what) const {
  TRY_ASSIGN(const Region* found, find(region, runs.first, runs.reach(), what));
  if (runs.size == 0) return found->data + runs.first;
  const auto first = static_cast<uint64_t>(runs.first);
  const Runs joined = runs.joined();
  if (!found->written.empty() && !is_known(region, joined)) {
    for (int i = 0; i < joined.count; ++i)
      if (const auto hole = found->hole(first + static_cast<uint64_t>(i * joined.step), joined.size))
        return error("{} reads byte {} of {}, which was never written.", what, *hole, region_name(region));
    remember(region, joined);
  }
  note(false, what, region, first, first + runs.reach(), joined.bytes());
  return found->data + first;
}

Result<std::byte*> Memory::writable(int region, const Runs& runs, const char* what) {
  TRY_ASSIGN(Region * found, find(region, runs.first, runs.reach(), what));
  if (!found->writable) return error("{} writes to {}, which is read-only.", what, region_name(region));
  if (runs.size == 0) return found->data + runs.first;
  const auto first = static_cast<uint64_t>(runs.first);
  const Runs joined = runs.joined();
  if (!is_known(region, joined)) {
    for (int i = 0; i < joined.count; ++i) found->mark(first + static_cast<uint64_t>(i * joined.step), joined.size);
    remember(region, joined);
  }
  note(true, what, region, first, first + runs.reach(), joined.bytes());
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
    writer->mark(first, size);
    const auto end = static_cast<uint64_t>(source) + size;
    for (auto at = static_cast<uint64_t>(source); !reader->written.empty() && at < end; ++at) {
      const std::optional<uint64_t> hole = reader->hole(at, end - at);
      if (!hole) break;
      at = *hole;
      writer->unmark(first + at - static_cast<uint64_t>(source));
      known_ = {};
    }
  }
  note(false, "", from, static_cast<uint64_t>(source), static_cast<uint64_t>(source) + size, size);
  note(true, "", to, static_cast<uint64_t>(destination), static_cast<uint64_t>(destination) + size, size);
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

Memory::Known& Memory::place_of(const Runs& runs) const {
  return known_[(static_cast<uint64_t>(runs.first) * 0x9e3779b97f4a7c15) >> 58];
}

bool Memory::is_known(int region, const Runs& runs) const {
  return runs.count >= kManyRuns && place_of(runs) == Known{region, runs};
}

void Memory::remember(int region, const Runs& runs) const {
  if (runs.count >= kManyRuns) place_of(runs) = {region, runs};
}

void Memory::note(bool write, const char* what, int region, uint64_t first, uint64_t last, uint64_t bytes) const {
  for (Access& access : touched_)
    if (access.write == write && access.range.region == region && access.what == what) {
      access.range = {region, std::min(access.range.first, first), std::max(access.range.last, last)};
      access.touched += bytes;
      return;
    }
  touched_.push_back({{region, first, last}, write, what, bytes});
}

Accesses Memory::take_accesses() { return std::exchange(touched_, {}); }

}  // namespace swoop::ethos
