#include "run/accumulate.h"

namespace swoop::ethos {

Result<Accumulators> read_accumulators(Machine& machine, const OutputStage& stage) {
  Registers& r = machine.registers;
  Accumulators accumulators;
  uint32_t format = r.bits(Cmd::ACC_FORMAT, 0, 2);
  if (format > 1) return error("NPU_SET_ACC_FORMAT names accumulator format {}, which nobody emits.", format);
  accumulators.wide = format == 1;
  const size_t elements = static_cast<size_t>(stage.shape.elements());
  if (stage.map.type.bytes == 8) {  // the short way out has 32 bits; start from zeros and take the long one
    accumulators.seeded = true;
    if (!machine.rehearsal) accumulators.values.assign(elements, 0);
  }

  // Bits that only the U85 has: zero elsewhere.
  uint32_t source = r.bits(Cmd::ACC_FORMAT, 4, 2);  // reset, keep, second input
  accumulators.keep = r.bits(Cmd::ACC_FORMAT, 6, 1) != 0;
  if (stage.discard != accumulators.keep)
    return error("NPU_SET_ACC_FORMAT {} its sums, but NPU_SET_OFM_PRECISION says otherwise.",
                 accumulators.keep ? "keeps" : "writes");
  accumulators.seeded |= source != 0;
  switch (source) {
    case 0: break;
    case 1:
      if (machine.accumulator_shape != stage.shape)
        return error("The accumulators hold {} x {} x {} sums, not {} x {} x {}.", machine.accumulator_shape.h,
                     machine.accumulator_shape.w, machine.accumulator_shape.c, stage.shape.h, stage.shape.w,
                     stage.shape.c);
      accumulators.values = std::move(machine.accumulators);
      machine.accumulator_shape = {0, 0, 0};
      return accumulators;
    case 2: {
      TRY_ASSIGN(FeatureMap map, read_feature_map(r, machine.encoding(), kIfm2Registers));
      TRY(machine.check_registers());
      if (map.type.bytes < 4) return error("The accumulators start from {}-byte elements.", map.type.bytes);
      TRY(machine.spend_elements(stage.shape.elements()));
      machine.blocks.reads.push_back({map, stage.shape, ReadOrder::Same, "The second input"});
      if (machine.rehearsal) {
        TRY(touch_read(machine.memory, map, stage.shape, "The second input"));
        return accumulators;
      }
      accumulators.values.resize(elements);
      TRY(load_feature_map(machine.memory, map, stage.shape, map.zero_point, accumulators.values.data(),
                           int64_t{stage.shape.w} * stage.shape.c, stage.shape.c, "The second input"));
      return accumulators;
    }
    default: return error("NPU_SET_ACC_FORMAT names accumulator source {}, which is not known.", source);
  }
  if (accumulators.keep && !machine.rehearsal) accumulators.values.assign(elements, 0);
  return accumulators;
}

Result<void> finish_accumulators(Machine& machine, const OutputStage& stage, Accumulators accumulators) {
  if (accumulators.keep) {
    machine.accumulator_shape = stage.shape;
    machine.accumulators = std::move(accumulators.values);
    return {};
  }
  const int c = stage.shape.c;
  if (stage.map.type.bytes == 8) {
    std::vector<int64_t> values(accumulators.values.size());
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = stage.finish64(accumulators.values[i], static_cast<int>(i % static_cast<size_t>(c)));
    return write_output64(machine, stage, values);
  }
  std::vector<int32_t> values(accumulators.values.size());
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = stage.finish(accumulators.values[i], static_cast<int>(i % static_cast<size_t>(c)));
  return write_output(machine, stage, std::move(values));
}

}  // namespace swoop::ethos
