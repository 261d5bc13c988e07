#include "run/memory.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace swoop::ethos {

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
  slot.written.assign(storage.size(), 0);
}

void Memory::set_internal_size(uint32_t bytes) {
  internal_storage_.assign(bytes, std::byte{0});
  internal_.data = internal_storage_.data();
  internal_.size = bytes;
  internal_.present = true;
  internal_.writable = true;
  internal_.written.assign(bytes, 0);
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

Result<const std::byte*> Memory::readable(int region, int64_t first, uint64_t size, const char* what) const {
  TRY_ASSIGN(const Region* found, find(region, first, size, what));
  if (!found->written.empty() && size > 0) {
    const uint8_t* marks = found->written.data() + first;
    if (const void* hole = std::memchr(marks, 0, size))
      return error("{} reads byte {} of {}, which was never written.", what,
                   first + (static_cast<const uint8_t*>(hole) - marks), region_name(region));
  }
  if (size > 0) note(false, what, region, static_cast<uint64_t>(first), static_cast<uint64_t>(first) + size);
  return found->data + first;
}

Result<std::byte*> Memory::writable(int region, int64_t first, uint64_t size, const char* what) {
  TRY_ASSIGN(const Region* found, find(region, first, size, what));
  if (!found->writable) return error("{} writes to {}, which is read-only.", what, region_name(region));
  if (size > 0) {
    Region& slot = region == kInternalRegion ? internal_ : regions_[static_cast<size_t>(region)];
    std::memset(slot.written.data() + first, 1, size);
    note(true, what, region, static_cast<uint64_t>(first), static_cast<uint64_t>(first) + size);
  }
  return found->data + first;
}

Result<void> Memory::copy(int from, int64_t source, int to, int64_t destination, uint64_t size) {
  TRY_ASSIGN(const Region* reader, find(from, source, size, "The transfer's source"));
  TRY_ASSIGN(const Region* writer, find(to, destination, size, "The transfer's destination"));
  if (!writer->writable) return error("The transfer writes to {}, which is read-only.", region_name(to));
  // Bytes copied onto themselves stay what they are, in whatever order they are read and written.
  const bool onto_itself = from == to && source == destination;
  if (from == to && !onto_itself && source < destination + static_cast<int64_t>(size) &&
      destination < source + static_cast<int64_t>(size))
    return error("The transfer's source (byte {}) and destination (byte {}) overlap in {}.", source, destination,
                 region_name(from));
  if (size == 0) return {};
  if (!onto_itself) {
    std::memcpy(writer->data + destination, reader->data + source, size);
    Region& slot = to == kInternalRegion ? internal_ : regions_[static_cast<size_t>(to)];
    if (reader->written.empty())
      std::memset(slot.written.data() + destination, 1, size);
    else
      std::memcpy(slot.written.data() + destination, reader->written.data() + source, size);
  }
  note(false, "", from, static_cast<uint64_t>(source), static_cast<uint64_t>(source) + size);
  note(true, "", to, static_cast<uint64_t>(destination), static_cast<uint64_t>(destination) + size);
  return {};
}

void Memory::mark_written(int region, uint64_t first, uint64_t size) {
  Region& slot = regions_[static_cast<size_t>(region)];
  if (!slot.written.empty() && size > 0) std::memset(slot.written.data() + first, 1, size);
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
