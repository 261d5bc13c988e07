// Gives every float value of a graph its quantized type and every constant its codes, from what calibration measured.
//
// Values that data movement makes from one another form a class and share one type. Where floats meet integers (ports,
// nodes that stay float) a quantize or dequantize node stands. A layer's weights and bias follow from the types around
// it.
#pragma once

#include <map>
#include <set>

#include "quantize/calibrate.h"
#include "quantize/choices.h"
#include "quantize/range.h"

namespace swoop {

struct Assignment {
  const QuantizeOptions& options;
  std::set<std::string>
      raised;  // names of values (behind the path of their body) that take int16 whatever the options say
  std::vector<ValueReport>* values = nullptr;
  size_t* bias_corrected = nullptr;
};

class TypeAssigner {
 public:
  TypeAssigner(Graph& graph, const Measured& measured, const Assignment& assignment, std::string path = "");

  // For bodies of a cond: inputs that already have quantized types keep them, and outputs must come in these types.
  void want_outputs(std::vector<Type> types) { wanted_ = std::move(types); }
  void run();

 private:
  enum class Kind : uint8_t {
    Float,      // reads and gives floats
    Quantized,  // reads and gives quantized values
    Reader,     // reads quantized values as they are, gives something else (compare, argmax, quantize)
    Branch,     // cond: passes quantized values to its bodies
  };
  struct Class {
    std::vector<ValueId> members;
    std::vector<ValueId> sources;  // members that are not made by movement
    std::optional<Type> pinned;
    std::optional<Range> range;  // computed when first asked for
    Range padding;               // reals that movement adds
  };

  // -- borders.cpp
  Kind classify(const Node& node) const;
  bool plain_float(ValueId id) const {
    return id != kNone && is_float(graph_.type(id).dtype) && !graph_.type(id).quantized();
  }
  bool lives_quantized(ValueId id) const { return id < domain_.size() && domain_[id]; }
  void mark(ValueId id);
  void place_borders();
  ValueId quantized_copy(ValueId id);
  ValueId float_copy(ValueId id);
  NodeId behind(ValueId id) const;

  // -- classes.cpp
  void make_classes();
  size_t class_of(ValueId id);
  void merge(size_t into, size_t from);
  void share_joins();
  void align_resizes();
  bool read_only_by(const Class& c, NodeId node) const;
  ValueId measured_id(ValueId id) const;  // the value of the float graph that has the statistics
  bool holds_scores(const Class& c) const;
  Precision precision_of(const Class& c) const;
  Precision precision_of_value(ValueId id) const;
  Range within_bounds(Range range, const Class& c) const;
  Range range_of_class(Class& c);
  Type type_of_class(Class& c);
  void set_types();
  void report(const Class& c, const Type& type);

  // -- constants.cpp
  void quantize_constants(Node& node);
  void quantize_layer(Node& node);
  void replace_constant(Node& node, size_t index, const Type& type);
  Type parameter_type(const Node& node, size_t index) const;
  void widen_operands(Node& node);
  void set_input_type(Node& node, size_t index, const Type& type);

  void run_bodies(Node& node);
  void fix_outputs();

  Graph& graph_;
  const Measured& measured_;
  const Assignment& assignment_;
  std::string path_;
  std::vector<Type> wanted_;
  std::vector<bool> masked_;
  std::vector<Kind> kinds_;            // by node id
  std::vector<Choice> choices_;        // by node id
  std::vector<bool> domain_;           // by value id: quantized, or to be
  std::map<ValueId, ValueId> copies_;  // float value -> its quantized copy
  std::map<ValueId, ValueId> floats_;  // quantized value -> its float copy
  std::map<ValueId, ValueId> source_;  // quantized copy -> the float value it was made of
  std::vector<size_t> class_index_;    // by value id
  std::vector<Class> classes_;
  std::map<std::pair<ValueId, std::string>, ValueId> codes_;  // constant and type -> its quantized constant
};

}  // namespace swoop
