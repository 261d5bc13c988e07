// A product or a shift of 32 bits, and what scales its result. regor does both in one operation where the scale is one,
// and for a product a power of two. For any other it reads all numbers again, as a pool does: two cycles each on
// Ethos-U85-256. A sum takes every scale along, and is chained to what comes before it: a sum with zero in between
// makes one operation of the three, for half a cycle (12,288 values of an attention: 43 and 14 kcycles).
#include <cstring>

#include "npu/npu.h"

namespace swoop {

namespace {

class JoinedRescales {
 public:
  explicit JoinedRescales(tosa::Body& body)
      : body_(body), producer_(body.tensors.size()), reader_(body.tensors.size()), readers_(body.tensors.size()) {
    for (const tosa::Operator& op : body.operators) {
      for (tosa::TensorId output : op.outputs) producer_[output] = &op;
      for (tosa::TensorId input : op.inputs) {
        reader_[input] = &op;
        ++readers_[input];
      }
    }
    for (tosa::TensorId output : body.outputs) ++readers_[output];
  }

  void run() {
    std::vector<tosa::Operator> operators;
    for (const tosa::Operator& op : body_.operators) {
      tosa::Operator copy = op;
      if (is_operation_of_its_own(op)) copy.inputs[0] = add_zero(op, operators);
      operators.push_back(std::move(copy));
    }
    body_.operators = std::move(operators);
  }

 private:
  bool is_operation_of_its_own(const tosa::Operator& op) const {
    if (op.op != tosa::Op::Rescale || !is_plain(std::get<tosa::RescaleAttributes>(op.attributes))) return false;
    const tosa::Tensor& from = body_.tensors[op.inputs[0]];
    const tosa::Operator* before = producer_[op.inputs[0]];
    if (from.dtype != tosa::DType::I32 || !before || readers_[op.inputs[0]] > 1) return false;
    if (turned(op.outputs[0])) return false;
    switch (before->op) {
      case tosa::Op::Mul: return is_wide(*before) && !is_shift(op, first_byte(before->inputs[2]) == 0 ? kMostShift : 0);
      case tosa::Op::ArithmeticRightShift:
      case tosa::Op::LogicalRightShift:
      case tosa::Op::LogicalLeftShift: return !is_shift(op, 0);
      default: return false;
    }
  }

  static bool is_plain(const tosa::RescaleAttributes& rescale) {
    return !rescale.per_channel && !rescale.output_unsigned && rescale.rounding == tosa::Rounding::Single;
  }

  // A product of 8 or 16 bits takes every scale along: its operands are widened by RESCALEs, which become part of it.
  bool is_wide(const tosa::Operator& product) const {
    for (size_t i = 0; i < 2; ++i) {
      const tosa::TensorId id = product.inputs[i];
      if (body_.tensors[id].is_const || body_.tensors[id].dtype != tosa::DType::I32) continue;
      const tosa::Operator* before = producer_[id];
      if (!before || before->op != tosa::Op::Rescale || body_.tensors[before->inputs[0]].dtype == tosa::DType::I32)
        return true;
    }
    return false;
  }

  // By two to the power of -`most` at least, and of 0 at most.
  bool is_shift(const tosa::Operator& rescale, int most) const {
    int32_t multiplier = 0;
    const Buffer& data = body_.tensors[rescale.inputs[1]].data;
    if (data.size() != sizeof(multiplier)) return false;
    std::memcpy(&multiplier, data.data(), sizeof(multiplier));
    const int places = first_byte(rescale.inputs[2]) - kUnitShift;
    return multiplier == 1 << kUnitShift && places >= 0 && places <= most;
  }

  // By a TRANSPOSE, which becomes part of a RESCALE and not of a sum. Alone it costs as much as was saved, and in DRAM
  // more (6 x 1500 x 64 in rows: 1.3 and 1.8 Mcycles).
  bool turned(tosa::TensorId id) const {
    const tosa::Operator* reader = reader_[id];
    while (reader && reader->op == tosa::Op::Reshape) reader = reader_[reader->outputs[0]];
    return reader && reader->op == tosa::Op::Transpose;
  }

  int first_byte(tosa::TensorId id) const {
    const Buffer& data = body_.tensors[id].data;
    return data.empty() ? 0 : std::to_integer<int>(data[0]);
  }

  tosa::TensorId add_zero(const tosa::Operator& rescale, std::vector<tosa::Operator>& operators) {
    const tosa::Tensor from = body_.tensors[rescale.inputs[0]];
    tosa::Tensor zero{{}, from.dtype, tosa::Shape(from.shape.size(), 1), true, Buffer(sizeof(int32_t))};
    body_.tensors.push_back(std::move(zero));
    body_.tensors.push_back({from.name + "_sum", from.dtype, from.shape, false, {}});
    const auto sum = static_cast<tosa::TensorId>(body_.tensors.size() - 1);
    operators.push_back({tosa::Op::Add, tosa::NoAttributes{}, {rescale.inputs[0], sum - 1}, {sum}, rescale.location});
    return sum;
  }

  static constexpr int kUnitShift = 30;  // of a multiplier of 2^30, which is one
  static constexpr int kMostShift = 32;

  tosa::Body& body_;
  std::vector<const tosa::Operator*> producer_, reader_;  // by tensor, of those that were there at the start; the last
  std::vector<int> readers_;                              // by tensor
};

}  // namespace

void join_rescales(tosa::Program& program, const NpuTarget& target) {
  if (!target.facts().chains_elementwise) return;
  for (tosa::Body& body : program.bodies) JoinedRescales(body).run();
}

}  // namespace swoop
