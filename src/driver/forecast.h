// What the types promise against what the file computes, layer by layer. The typed graph is executed in float with
// every value rounded to its type; wherever the file's own value is known, it takes the place of the computed one. So
// each layer is judged alone: on the operands that it had in the file.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "accuracy/accuracy.h"
#include "ops/ops.h"
#include "rewriter/rewriter.h"
#include "support/result.h"
#include "tosa/tosa.h"

namespace swoop {

// What the integer forms of an operator declare: the rules that it is a root of (legalize), and lower's own form.
ErrorBound declared_off(Op op);

class Forecast {
 public:
  // A layer whose own error in the file is beyond what its type and its operator's forms allow.
  struct Fault {
    ValueId value;   // of the typed graph
    Noise of_types;  // that rounding alone leaves
    Noise of_file;   // of the file's value; both against the layer without rounding
    bool wrong;      // beyond what any form may be off by; otherwise beyond what its forms declare
  };
  struct Comparison {
    size_t layers = 0;            // whose value the file has
    std::vector<Fault> faults;    // in the order of execution
    std::vector<Tensor> outputs;  // of the typed graph; the state among them is that of the next run
  };

  // `typed`: the graph when its types have been chosen. It and the regions that were cut from it outlive this.
  Forecast(const Graph& typed, OpaqueKernels* opaque);

  // Takes what each operator of a region gives.
  tosa::Observer observer(const Graph& region, const tosa::Body& main);

  // Compares what was taken during one run of the file, and forgets it. `sample`: the inputs of that run, state as the
  // run before left it.
  Result<Comparison> compare(std::span<const Tensor> sample);

 private:
  struct Taken {
    const Value* value = nullptr;  // of the region
    Buffer codes;
  };
  using See = std::function<void(ValueId, const Tensor& computed, const Tensor& file)>;

  void take(const Value& value, Buffer codes);
  std::optional<Tensor> as_in_typed(ValueId id) const;
  std::vector<double> declared() const;
  Result<std::vector<Tensor>> run(std::span<const Tensor> sample, bool rounds, const See& see);

  const Graph& typed_;
  OpaqueKernels* opaque_;
  ConstantTensors constants_;
  std::map<std::string, ValueId> by_origin_;
  std::map<ValueId, Taken> taken_;  // by value of the typed graph
};

}  // namespace swoop
