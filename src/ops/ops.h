// What the core operators mean: their traits, shape and type inference, quantization policy and float kernel, one
// OpInfo per op. The float kernel is the definition; constant folding, calibration and tests share it.
#pragma once

#include <cstring>
#include <functional>
#include <limits>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "ir/ir.h"
#include "support/result.h"

namespace swoop {

// How a quantizer gives the results of an op their types. policy_of() knows the one op whose attributes matter.
enum class Policy : uint8_t {
  SameAsInput,  // the result holds elements of operand 0 and takes its type
  Joins,        // elements of several operands: the range is measured, and the operands may take the result's type
  OwnRange,     // the range is measured, within bounds_of()
  ReadsCodes,   // compares codes as they are; the result is a boolean or an index
  KeepFloat,    // not quantized: integer, boolean or opaque; or a change of type itself
};

// Facts that rules and rooms ask for. A rule for all operators of a kind takes its roots from them: ops_where().
struct Traits {
  bool movement = false;     // moves elements without changing them
  bool elementwise = false;  // result[i] depends on operands[i] (after broadcasting) alone
  bool reduction = false;    // over attribute axes (or axis), keepdim
  bool window = false;       // each result reads a window of x: attributes stride and padding, a kernel or weights
  bool channels = false;     // x is [N,C,...], or [N,...,C] with channels_last=true
  bool weights = false;      // operand 1 holds weights per output channel, operand 2 (optional) a bias
  bool parameters = false;   // operands from 1 on are few numbers that act on all of x, one per channel
  bool fuses_clamp = false;  // may carry act_min / act_max
  bool bodies = false;       // control flow: graphs inside the node
  int selector = -1;         // the operand that chooses among elements (an index, a condition) and gives none itself
};

// The reals from min to max; infinite where nothing bounds them.
struct Range {
  double min = 0;
  double max = 0;
  bool operator==(const Range&) const = default;
};
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr Range kAllReals{-kInfinity, kInfinity};

// The bytes of a tensor: aligned for vector units and not cleared, because a kernel writes every element of its result.
class Storage {
 public:
  Storage() = default;
  explicit Storage(size_t size);
  Storage(Bytes bytes) : Storage(bytes.size()) {
    if (size_) std::memcpy(bytes_, bytes.data(), size_);
  }
  // Somebody else's, who keeps them; nobody may write them. A copy is one of its own.
  static Storage borrowed(Bytes bytes);
  Storage(const Storage& other) : Storage(Bytes(other.bytes_, other.size_)) {}
  Storage(Storage&& other) noexcept { swap(other); }
  Storage& operator=(Storage other) noexcept {
    swap(other);
    return *this;
  }
  ~Storage();
  operator Buffer() const { return Buffer(data(), data() + size_); }
  std::byte* data() { return bytes_; }
  const std::byte* data() const { return bytes_; }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }

 private:
  void swap(Storage& other) {
    std::swap(size_, other.size_);
    std::swap(bytes_, other.bytes_);
    std::swap(owned_, other.owned_);
  }
  size_t size_ = 0;
  std::byte* bytes_ = nullptr;
  bool owned_ = true;
};

// Large blocks that tensors let go are kept for the tensors that follow, in any thread, as long as there is one of
// these: for a run, or for several that follow one another. Fresh memory is slow, because the kernel clears every page
// of it (whisper-tiny's encoder asks for 54 MB twelve times).
class StorageReuse {
 public:
  StorageReuse();
  ~StorageReuse();
  StorageReuse(const StorageReuse&) = delete;
  StorageReuse& operator=(const StorageReuse&) = delete;
};

// An array during float execution. Floats are f32; integers i64; booleans one byte. Row-major.
struct Tensor {
  DType dtype = DType::F32;  // F32, I64 or Bool
  Shape shape;
  Storage data;

  template <typename T>
  std::span<T> as() {
    return {reinterpret_cast<T*>(data.data()), data.size() / sizeof(T)};
  }
  template <typename T>
  std::span<const T> as() const {
    return {reinterpret_cast<const T*>(data.data()), data.size() / sizeof(T)};
  }
};

// Result types from the operands' types and the attributes; quantization of the operands is ignored except by data
// movement.
using InferFn = Result<std::vector<Type>> (*)(const Graph&, const Node&);
// inputs[i] is null where the optional input is absent. results come allocated with the inferred types.
using KernelFn = Result<void> (*)(const Node&, std::span<const Tensor* const> inputs, std::span<Tensor> results);

struct OpInfo {
  Op op;
  Policy policy;
  Traits traits;
  int min_inputs;
  int max_inputs;  // -1: any number
  InferFn infer;
  KernelFn kernel;           // null: not executable in float (opaque)
  Range bounds = kAllReals;  // of the results, whatever the operands and attributes are
};

const OpInfo& info(Op op);

// The operators that fit, in the order of ir/ops.def.
std::vector<Op> ops_where(bool (*fits)(const OpInfo&));

// The operator's policy, or what this node's attributes make of it: a bilinear resize computes, a nearest one does not.
Policy policy_of(const Node& node);

// Where the results of a node lie by its meaning, whatever its operands are: softmax between 0 and 1, a clamp between
// its bounds, a function of one value in its range.
Range bounds_of(const Node& node);

// Result types of a node as it stands. User models can fail it: the sentence says which rule the shapes break.
Result<std::vector<Type>> infer(const Graph& graph, const Node& node);

// Float execution of one node. Quantized constants must have been dequantized by the caller (to_tensor does).
Result<void> evaluate(const Node& node, std::span<const Tensor* const> inputs, std::span<Tensor> results);

// Computes operators that are known by name alone (Op::Opaque), which have no kernel here. One thread at a time.
class OpaqueKernels {
 public:
  virtual ~OpaqueKernels() = default;
  virtual Result<void> evaluate(const Node& node, std::span<const Tensor* const> inputs, std::span<Tensor> results) = 0;
};

// A graph's constants as tensors, for several executions of it, also at the same time. It outlives this. Of those that
// are not floats already, so many that memory does not fill with them; the others are made whenever they are read.
class ConstantTensors {
 public:
  explicit ConstantTensors(const Graph& graph) : graph_(graph), tensors_(graph.value_slots()) {}
  bool are_of(const Graph& graph) const { return &graph == &graph_; }
  const Tensor* of(ValueId id);  // null: not one of these

 private:
  const Graph& graph_;
  std::mutex mutex_;
  size_t bytes_ = 0;
  std::vector<std::optional<Tensor>> tensors_;  // by value id
};

struct ExecuteOptions {
  OpaqueKernels* opaque = nullptr;  // null: an opaque operator is an error
  // Sees each value as it is computed, with the graph it belongs to: values inside a body of control flow are shown
  // each time that the body runs. It may put other elements in the place of those computed.
  std::function<void(const Graph& graph, ValueId value, Tensor& tensor)> observer = {};
  bool rounds = true;                    // each result to its quantized type; otherwise types tell the shape alone
  ConstantTensors* constants = nullptr;  // of the graph; null: they are made for this execution
};

// Executes the whole graph in float: quantized types are honoured by quantizing and dequantizing each result (fake
// quantization), so the same function is the float reference of a float graph and the q/dq reference of a quantized
// one.
Result<std::vector<Tensor>> execute(const Graph& graph, std::span<const Tensor> inputs,
                                    const ExecuteOptions& options = {});

// A constant as a tensor (dequantized when its type is quantized); and the bytes of a tensor's elements as `dtype`
// stores them: floats as one of the floats, integers as one of the integers.
Tensor to_tensor(const Value& constant);
// The elements of a constant of floats (or of codes that stand for them), where it stores them if that is possible.
class FloatElements {
 public:
  explicit FloatElements(const Value& constant);
  std::span<const float> all() const { return all_; }

 private:
  Tensor converted_;
  std::span<const float> all_;
};
Buffer to_bytes(const Tensor& tensor, DType dtype);
Tensor make_tensor(DType dtype, Shape shape);
Tensor transposed(const Tensor& in, std::span<const int64_t> perm);
Ints inverse(const Ints& perm);
Ints to_channels_first(size_t rank);                   // the perm from [N,s...,C]
Ints to_channels_last(size_t rank);                    // the perm from [N,C,s...]
double real_at(const Value& constant, int64_t index);  // one element of a constant, dequantized

// Constants made from others. codes_of_constant and quantize_constant: the codes of a float constant in `type`. fold:
// the result of a single-result node whose operands are all constants; data movement moves the stored codes, everything
// else computes in float and quantizes. Null: not foldable.
Buffer codes_of_constant(const Value& constant, const Type& type);
ValueId quantize_constant(Graph& graph, ValueId constant, const Type& type);
std::optional<ValueId> fold(Graph& graph, const Node& node);

// What people call a node: "conv"; of a unary its function, of an opaque one PyTorch's name.
std::string called(const Node& node);

// What a batch norm computes: y = gain * x + offset, per channel.
struct Affine {
  std::vector<double> gain;
  std::vector<double> offset;
};
// Null when one of its parameters is not a constant.
std::optional<Affine> batch_norm_affine(const Graph& graph, const Node& node);

// How many elements of x layer_norm, rms_norm or group_norm takes together.
int64_t norm_row(const Node& norm, const Shape& x);

// How the integer form of a norm takes the variance of those rows of typed x.
struct RowVariance {
  double least;   // less counts as this; Key::LeastVariance says it to the float kernel
  double most;    // no number is further from its row's mean, or is taken as that far
  double square;  // the step of the squares
  double
      nearer;  // squares of what is so many times nearer are taken once more, in steps that are finer. 1: they are not
  bool fine;   // squares have 32 bits
  int64_t coarser;  // group_norm sums the squares of a plane, then the planes, in steps that are so many times coarser
};
RowVariance row_variance(const Node& norm, const Type& x);

// A score below this is masked, not computed: masks are -inf, the lowest float, -1e9 or -1e4.
constexpr float kMaskedBelow = -500.0f;

// q = clamp(round_half_even(x * (1 / scale)) + zero_point), as torch's quantize_per_tensor does it in float32.
int64_t quantize_value(float x, double scale, int64_t zero_point, int64_t qmin, int64_t qmax);

// Whole tensors, per tensor or per channel: to the codes of a quantized type (in its byte layout), back to reals, and
// both in place.
Result<Buffer> quantize(const Tensor& tensor, const Type& type);
Tensor dequantize(Bytes codes, const Type& type);
void fake_quantize(Tensor& tensor, const Type& type);

// What the codes of a per-tensor type can stand for.
Range range_of(const Type& type);

// A function of one value, a row of ops/unary.def. Unary nodes name it in attribute fn and may have its parameters.
struct UnaryFunction {
  std::string_view name;
  float (*of)(float x, float alpha, float beta);
  void (*map)(const float* in, float* out, size_t count, float alpha, float beta);
  Range (*range)(double alpha, double beta);                      // of its results
  bool (*keeps_integers)(double alpha);                           // null: integers give floats
  int64_t (*of_integer)(int64_t x, int64_t alpha, int64_t beta);  // where it keeps them
};
std::span<const UnaryFunction> unary_functions();
const UnaryFunction* unary_function(std::string_view fn);  // null: unknown

}  // namespace swoop
