// Which operation a transfer brings something for: the first one that has a base address inside what was brought.
#include <algorithm>

#include "run/machine.h"

namespace swoop {

using namespace ethos;

namespace {

constexpr size_t kMaxPending = 64;  // nobody prefetches further ahead; keeps long streams linear

struct Pending {
  uint32_t transfer = 0;
  uint32_t next = 0;  // the operation after it; 0: not seen yet
  bool internal = false;
  uint32_t region = 0;
  int64_t first = 0, last = 0;
};

bool uses(Registers& r, const Pending& pending) {
  if (pending.internal) return true;  // a look-up table is for the next operation
  constexpr std::pair<Cmd, Cmd> kBases[] = {
      {Cmd::WEIGHT_REGION, Cmd::WEIGHT_BASE}, {Cmd::WEIGHT_REGION, Cmd::WEIGHT1_BASE},
      {Cmd::SCALE_REGION, Cmd::SCALE_BASE},   {Cmd::IFM_REGION, Cmd::IFM_BASE0},
      {Cmd::IFM2_REGION, Cmd::IFM2_BASE0},
  };
  return std::any_of(std::begin(kBases), std::end(kBases), [&](const auto& base) {
    if (!r.is_set(base.first) || !r.is_set(base.second) || (r.parameter(base.first) & 7) != pending.region)
      return false;
    int64_t address = r.address(base.second);
    return address >= pending.first && address < pending.last;
  });
}

}  // namespace

std::vector<TransferUse> transfer_uses(const std::vector<NpuCommand>& commands) {
  std::vector<TransferUse> found;
  std::vector<Pending> pending;
  auto settle = [&](const Pending& p, uint32_t user) { found.push_back({p.transfer, user != 0 ? user : p.transfer}); };
  Registers registers;
  for (const NpuCommand& command : commands) {
    const Cmd id = static_cast<Cmd>(command.id);
    if (!command_info(id).starts_work) {
      registers.set(id, command.parameter, command.payload);
    } else if (id == Cmd::OP_DMA_START) {
      if (pending.size() == kMaxPending) {
        settle(pending.front(), pending.front().next);
        pending.erase(pending.begin());
      }
      int64_t first = registers.address(Cmd::DMA0_DST);
      pending.push_back({command.position, 0, registers.bits(Cmd::DMA0_DST_REGION, 8, 1) != 0,
                         registers.bits(Cmd::DMA0_DST_REGION, 0, 3), first, first + registers.address(Cmd::DMA0_LEN)});
    } else if (command.is_kernel()) {
      for (Pending& p : pending)
        if (p.next == 0) p.next = command.position;
      auto used = [&](const Pending& p) { return uses(registers, p); };
      for (const Pending& p : pending)
        if (used(p)) settle(p, command.position);
      std::erase_if(pending, used);
    }
  }
  for (const Pending& p : pending) settle(p, p.next);
  std::sort(found.begin(), found.end(),
            [](const TransferUse& a, const TransferUse& b) { return a.transfer < b.transfer; });
  return found;
}

}  // namespace swoop
