// NPU_OP_RESIZE (U85): TOSA's RESIZE. A position in the input is a fraction with denominator n; one output step
// advances by d / n.
#include <algorithm>

#include "run/output.h"
#include "support/parallel.h"

namespace swoop::ethos {

namespace {

enum class Resize : uint32_t { Bilinear, Replicate, Nearest };

struct Axis {
  int n = 1, d = 1, offset = 0;
  int input = 1;  // elements of the input along the axis
  struct Place {
    int low, high, fraction;
  };
  Place at(int out) const {
    const int64_t position = int64_t{out} * d + offset;
    const int64_t floor = position >= 0 ? position / n : -((-position + n - 1) / n);
    return {static_cast<int>(std::clamp<int64_t>(floor, 0, input - 1)),
            static_cast<int>(std::clamp<int64_t>(floor + 1, 0, input - 1)), static_cast<int>(position - floor * n)};
  }
};

Result<Axis> read_axis(Machine& machine, Cmd scale, Cmd step, Cmd offset, Cmd input, Cmd block) {
  Registers& r = machine.registers;
  Axis axis;
  axis.n = static_cast<int>(r.parameter(scale)) + 1;
  const int step_int = static_cast<int>(r.bits(step, 0, 4)), block_int = static_cast<int>(r.bits(step, 4, 11));
  const uint32_t fractions = r.payload(step);
  const int step_mod = static_cast<int>(fractions & 0x7ff), block_mod = static_cast<int>(fractions >> 16 & 0x7ff);
  axis.d = step_int * axis.n + step_mod;
  const int offset_bits = static_cast<int>(r.parameter(offset));
  axis.offset = offset_bits >= 2048 ? offset_bits - 4096 : offset_bits;
  axis.input = static_cast<int>(r.parameter(input)) + 1;
  const int64_t block_step = int64_t{r.parameter(block)} * axis.d;
  TRY(machine.check_registers());
  if (step_mod >= axis.n || block_step / axis.n != block_int || block_step % axis.n != block_mod)
    return error("{} advances a block by {} + {}/{}, which does not follow from one step of {}/{}.",
                 command_info(step).name, block_int, block_mod, axis.n, axis.d, axis.n);
  return axis;
}

}  // namespace

Result<void> run_resize(Machine& machine, uint32_t mode_bits) {
  if (mode_bits > 2) return error("NPU_OP_RESIZE names mode {}, which is not known.", mode_bits);
  const Resize mode = static_cast<Resize>(mode_bits);
  TRY_ASSIGN(OutputStage stage, read_output_stage(machine));
  TRY_ASSIGN(FeatureMap ifm, read_feature_map(machine.registers, machine.encoding(), kIfmRegisters));
  TRY_ASSIGN(Axis axis_y, read_axis(machine, Cmd::RESIZE_Y_SCALE_N_M1, Cmd::RESIZE_Y_STEP, Cmd::RESIZE_Y_OFFSET,
                                    Cmd::KERNEL_HEIGHT_M1, Cmd::OFM_BLK_HEIGHT_M1));
  TRY_ASSIGN(Axis axis_x, read_axis(machine, Cmd::RESIZE_X_SCALE_N_M1, Cmd::RESIZE_X_STEP, Cmd::RESIZE_X_OFFSET,
                                    Cmd::KERNEL_WIDTH_M1, Cmd::OFM_BLK_WIDTH_M1));
  const Shape3 shape{axis_y.input, axis_x.input, static_cast<int>(machine.registers.parameter(Cmd::IFM_DEPTH_M1)) + 1};
  TRY(machine.check_registers());
  if (shape.c != stage.shape.c || ifm.type.bytes > 2)
    return error("NPU_OP_RESIZE of {} does not fit its output.", describe(ifm, shape));
  if (stage.per_channel) return error("NPU_OP_RESIZE has a scale per channel.");
  if (int64_t{shape.h} * shape.w > kMaxElements || shape.elements() > kMaxElements)
    return error("The input is too large.");
  TRY(machine.spend_elements(shape.elements() + 4 * stage.shape.elements()));
  if (machine.rehearsal) {
    TRY(touch_read(machine.memory, ifm, shape, "The input"));
    return write_output(machine, stage, {});
  }
  std::vector<int32_t> input(static_cast<size_t>(shape.elements()));
  TRY(load_feature_map(machine.memory, ifm, shape, ifm.zero_point, input.data(), int64_t{shape.w} * shape.c, shape.c,
                       "The input"));
  if (machine.wants_summary)
    machine.summary = fmt::format("mode {} {} -> {} by {}/{} x {}/{}", mode_bits, describe(ifm, shape),
                                  describe(stage.map, stage.shape), axis_y.n, axis_y.d, axis_x.n, axis_x.d);

  std::vector<int32_t> values(static_cast<size_t>(stage.shape.elements()));
  parallel_for(static_cast<size_t>(stage.shape.h), 4, [&](size_t first, size_t last) {
    for (size_t row = first; row < last; ++row) {
      const Axis::Place y = axis_y.at(static_cast<int>(row));
      for (int x_out = 0; x_out < stage.shape.w; ++x_out) {
        const Axis::Place x = axis_x.at(x_out);
        auto pixel = [&](int py, int px) { return input.data() + (int64_t{py} * shape.w + px) * shape.c; };
        int32_t* out = values.data() + (static_cast<int64_t>(row) * stage.shape.w + x_out) * shape.c;
        // The core works with 16 more fractional bits, which the output scale takes away again.
        constexpr int64_t kUnit = int64_t{1} << 16;
        if (mode == Resize::Bilinear) {
          const int32_t *a = pixel(y.low, x.low), *b = pixel(y.low, x.high), *c = pixel(y.high, x.low),
                        *d = pixel(y.high, x.high);
          for (int i = 0; i < shape.c; ++i) {
            const int64_t top = int64_t{a[i]} * (axis_x.n - x.fraction) + int64_t{b[i]} * x.fraction;
            const int64_t bottom = int64_t{c[i]} * (axis_x.n - x.fraction) + int64_t{d[i]} * x.fraction;
            out[i] = stage.finish((top * (axis_y.n - y.fraction) + bottom * y.fraction) * kUnit, i);
          }
          continue;
        }
        const bool next_y = mode == Resize::Nearest && 2 * y.fraction >= axis_y.n,
                   next_x = mode == Resize::Nearest && 2 * x.fraction >= axis_x.n;
        const int32_t* from = pixel(next_y ? y.high : y.low, next_x ? x.high : x.low);
        for (int i = 0; i < shape.c; ++i) out[i] = stage.finish(from[i] * kUnit, i);
      }
    }
  });
  return write_output(machine, stage, std::move(values));
}

}  // namespace swoop::ethos
