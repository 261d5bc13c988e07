// One exported graph, node by node, into one Graph. Bodies of control flow get importers of their own.
#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "import/archive.h"
#include "import/aten.h"
#include "import/import.h"
#include "import/locations.h"
#include "import/scope.h"

namespace swoop {

// What the graphs of one program share.
struct Program {
  Program(Archive& archive_, Budget& budget_) : archive(archive_), symbols(archive_.model()), budget(budget_) {}

  struct Target {
    Found found;
    std::vector<Param> params;
  };
  const Target& target(std::string_view name);
  const Target& complex_target(std::string_view name);  // for complex operands or results

  const StoredTensor* weight(std::string_view fqn, bool persistent);
  void problem(std::string message);  // throws when there are too many

  Archive& archive;
  Symbols symbols;
  Budget& budget;
  std::vector<ImportNote> notes;
  std::vector<std::string> problems;
  std::vector<std::string> states;  // buffers that BecomesState named
  int depth = 0;

 private:
  std::unordered_map<std::string_view, Target> targets_, complex_targets_;
  std::unordered_map<std::string_view, StoredTensor> weights_;
};

class GraphImporter {
 public:
  GraphImporter(Program& program, Graph& graph, Json definition, bool body);

  // All nodes of the definition, in order.
  void import_nodes();

  Scope scope;
  TensorMeta declared(std::string_view name) const;
  ValueId read(std::string_view name);  // the value a name stands for at the end

 private:
  // The fields of an exported node, found in one walk over its keys.
  struct Fields {
    explicit Fields(Json node);
    std::string_view name_of_first_result() const;
    std::string_view target;
    std::string_view name;
    JsonArray inputs;
    JsonArray outputs;
    std::optional<Json> metadata;
  };
  struct Operand {
    Binding* binding = nullptr;
    bool baked = false;  // goes into the bodies as a constant
  };
  struct Outputs {
    std::vector<std::string_view> names;
    std::vector<bool> tensors;      // false: a number
    std::vector<TensorMeta> metas;  // of the tensors
    bool list = false;              // one result that is a list, not several results
  };

  void load_metas();
  bool used(std::string_view name);  // by a node or as a result of the graph
  void import_node(Json json);
  void dispatch(const Fields& node, std::string_view target);
  void import_operator(const Fields& node, std::string_view target, const Program::Target& known);
  void import_complex(const Fields& node, std::string_view target, const Outputs& outputs);
  void import_number(const Fields& node, std::string_view target);
  void fill_arguments(Call& call, const Fields& node, const Program::Target& known);
  void bind_results(Call& call, const Program::Target& known, const Outputs& outputs, std::vector<ValueId> values);
  std::vector<ValueId> make_opaque(Call& call, std::string_view target);
  ArgValue read_argument(Json argument);
  ArgValue number_argument(Json reference);
  Outputs read_outputs(const Fields& node) const;
  Number number_of(const ArgValue& value) const;
  ValueId computed_number(std::string_view target, const std::vector<ArgValue>& args);
  void note(std::string message, bool warning);  // about the node at hand
  void give_up_on(const Fields& node, const std::string& message);

  // control.cpp
  void import_control(const Fields& node, std::string_view target);
  std::vector<Json> control_arguments(const Fields& node) const;
  std::optional<bool> known_condition(Json argument);
  std::vector<Operand> operands(Json argument);
  bool bakeable(const Binding& binding);
  std::unique_ptr<Graph> import_body(Json argument, const std::vector<Operand>& operands,
                                     const std::vector<bool>& scanned);
  std::vector<Binding> inlined(Json body, const std::vector<std::optional<Binding>>& arguments);
  void bind_inlined(const Outputs& outputs, const std::vector<Binding>& results);
  void import_inline(const Fields& node, Json body, const std::vector<std::optional<Binding>>& arguments);
  bool unroll(const Fields& node, Op op, const std::vector<Json>& bodies,
              const std::vector<std::vector<Operand>>& groups);

  Program& program_;
  Graph& graph_;
  Json definition_;
  Call call_;  // reused: carries the location and name of the node at hand
  Locations locations_;
  std::unordered_map<std::string_view, Json> metas_;
  std::unordered_set<std::string_view> used_;  // filled when first asked
};

// Folds a function of Python numbers (numbers.cpp); empty when it is not one that we know.
std::optional<Number> fold_number(std::string_view target, const std::vector<Number>& operands);

}  // namespace swoop
