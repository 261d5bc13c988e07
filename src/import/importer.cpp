#include "import/importer.h"

#include <algorithm>

#include "import/complex.h"
#include "ops/ops.h"
#include "support/check.h"

namespace swoop {

namespace {

// How the names of operators begin: ATen's own, and those of ExecuTorch's edge dialect (to_edge), which are the same
// operators.
constexpr std::string_view kDialects[] = {"torch.ops.", "executorch.exir.dialects.edge._ops."};
constexpr size_t kMaxProblems = 20;

// What a node without a location still has.
std::string where(const Graph& graph, LocId loc) {
  const Loc* found = graph.loc(loc);
  std::string text = found ? to_text(*found) : std::string();
  return text.empty() ? text : text + ": ";
}

}  // namespace

const Program::Target& Program::target(std::string_view name) {
  auto [at, fresh] = targets_.try_emplace(name);
  if (fresh) {
    at->second.found = find_row(name);
    if (at->second.found.row) at->second.params = parse_schema(at->second.found.row->schema);
  }
  return at->second;
}

const Program::Target& Program::complex_target(std::string_view name) {
  auto [at, fresh] = complex_targets_.try_emplace(name);
  if (fresh) {
    at->second.found = find_complex_row(name);
    const Row* row = at->second.found.row;
    if (const Row* plain = find_row(name).row)
      at->second.params = parse_schema(plain->schema);
    else if (row)
      at->second.params = parse_schema(row->schema);
  }
  return at->second;
}

const StoredTensor* Program::weight(std::string_view fqn, bool persistent) {
  auto at = weights_.find(fqn);
  if (at == weights_.end()) at = weights_.emplace(fqn, archive.tensor(fqn, persistent)).first;
  return &at->second;
}

void Program::problem(std::string message) {
  problems.push_back(std::move(message));
  if (problems.size() >= kMaxProblems) throw Malformed{"there are more problems than are worth listing"};
}

GraphImporter::GraphImporter(Program& program, Graph& graph, Json definition, bool body)
    : scope(graph, program.budget, body),
      program_(program),
      graph_(graph),
      definition_(definition),
      call_(scope, graph, program.budget) {
  load_metas();
}

void GraphImporter::load_metas() {
  std::optional<Json> values = find(definition_, "tensor_values");
  if (!values) return;
  JsonObject object = as_object(*values, "tensor_values");
  metas_.reserve(object.size());
  for (auto [name, meta] : object) metas_.emplace(name, meta);
}

bool GraphImporter::used(std::string_view name) {
  auto note = [this](Json argument) {
    Tagged tagged = as_union(argument, "arg");
    std::optional<Json> one = find(tagged.value, "name");
    if (one && one->is_string()) used_.insert(as_text(*one, "name"));
    if (!tagged.value.is_array()) return;
    for (Json element : as_array(tagged.value, "arg")) {
      if (std::optional<Json> optional = find(element, "as_tensor")) element = *optional;
      if (std::optional<Json> listed = find(element, "name"); listed && listed->is_string())
        used_.insert(as_text(*listed, "name"));
    }
  };
  if (used_.empty()) {
    for (Json node : as_array(member(definition_, "nodes"), "nodes"))
      for (Json input : as_array(member(node, "inputs"), "inputs")) note(member(input, "arg"));
    for (Json output : as_array(member(definition_, "outputs"), "outputs")) note(output);
  }
  return used_.contains(name);
}

TensorMeta GraphImporter::declared(std::string_view name) const {
  auto at = metas_.find(name);
  if (at == metas_.end()) malformed("the file does not say what type `{}` has", name);
  return read_meta(at->second, program_.symbols, name);
}

ValueId GraphImporter::read(std::string_view name) { return scope.read(scope.get(name), call_); }

void GraphImporter::import_nodes() {
  for (Json node : as_array(member(definition_, "nodes"), "nodes")) import_node(node);
}

GraphImporter::Fields::Fields(Json node) {
  bool has_target = false;
  bool has_inputs = false;
  bool has_outputs = false;
  for (auto [key, value] : as_object(node, "nodes")) {
    if (key == "target") {
      target = as_text(value, key);
      has_target = true;
    } else if (key == "inputs") {
      inputs = as_array(value, key);
      has_inputs = true;
    } else if (key == "outputs") {
      outputs = as_array(value, key);
      has_outputs = true;
    } else if (key == "metadata" && !value.is_null()) {
      metadata = value;
    } else if (key == "name" && !value.is_null()) {
      name = as_text(value, key);
    }
  }
  if (!has_target || !has_inputs || !has_outputs)
    malformed("A node of the program lacks its target, inputs or outputs.");
  if (name.empty()) name = name_of_first_result();
}

// torch before 2.10 does not write the names of nodes; that of a single result is the same.
std::string_view GraphImporter::Fields::name_of_first_result() const {
  for (Json output : outputs) {
    Tagged tagged = as_union(output, "outputs");
    if (tagged.tag == "as_tensor") return as_text(member(tagged.value, "name"), "name");
    if (tagged.tag != "as_tensors") break;
    for (Json one : as_array(tagged.value, tagged.tag)) return as_text(member(one, "name"), "name");
  }
  return "";
}

void GraphImporter::import_node(Json json) {
  Fields node(json);
  std::string_view target = node.target;
  call_.start(node.metadata ? locations_.intern(graph_, *node.metadata) : kNone, node.name);
  std::string fault;
  try {
    dispatch(node, target);
    return;
  } catch (const Malformed& broken) {
    fault = broken.message;
  } catch (const Unsupported& form) {
    fault = form.reason;
  }
  if (fault.empty()) throw Malformed{""};  // from a body, listed there
  program_.problem(fmt::format("{}{} (node `{}`, {})", where(graph_, call_.loc), fault, call_.name, target));
  give_up_on(node, fault);
}

void GraphImporter::dispatch(const Fields& node, std::string_view target) {
  const auto* dialect = std::find_if(std::begin(kDialects), std::end(kDialects),
                                     [&](std::string_view prefix) { return target.starts_with(prefix); });
  if (dialect == std::end(kDialects)) return import_number(node, target);
  target.remove_prefix(dialect->size());
  if (target.starts_with("higher_order.")) return import_control(node, target);
  const Program::Target& known = program_.target(target);
  if (known.found.row && known.found.row->kind == RowKind::Drop) return;
  if (known.found.row && known.found.row->kind == RowKind::Number) return import_number(node, target);
  import_operator(node, target, known);
}

// The node is broken, but later ones may be too: its results get their declared types, so that the user sees all
// problems at once.
void GraphImporter::give_up_on(const Fields& node, const std::string& message) {
  try {
    Outputs outputs = read_outputs(node);
    std::vector<Type> types;
    for (size_t i = 0; i < outputs.names.size(); ++i) {
      if (!outputs.tensors[i]) throw Malformed{message};
      types.push_back(outputs.metas[i].type);
    }
    Node& made = graph_.add_node(Op::Opaque, {}, std::move(types), {{Key::Target, std::string("broken")}}, call_.loc,
                                 call_.name);
    for (size_t i = 0; i < outputs.names.size(); ++i)
      if (!scope.find(outputs.names[i])) scope.bind_value(outputs.names[i], made.outputs[i]);
  } catch (const Malformed&) {
    throw Malformed{""};  // the problem is listed already; nothing after it can be read
  }
}

GraphImporter::Outputs GraphImporter::read_outputs(const Fields& node) const {
  Outputs outputs;
  auto add = [&](Json reference, bool tensor) {
    outputs.names.push_back(as_text(member(reference, tensor ? "name" : "as_name"), "name"));
    outputs.tensors.push_back(tensor);
    outputs.metas.push_back(tensor ? declared(outputs.names.back()) : TensorMeta());
  };
  for (Json output : node.outputs) {
    Tagged tagged = as_union(output, "outputs");
    if (tagged.tag == "as_tensor") {
      add(tagged.value, true);
    } else if (tagged.tag == "as_tensors") {
      for (Json one : as_array(tagged.value, "as_tensors")) add(one, true);
      outputs.list = true;
    } else if (tagged.tag == "as_sym_int" || tagged.tag == "as_sym_float" || tagged.tag == "as_sym_bool") {
      add(tagged.value, false);
    } else if (tagged.tag != "as_none") {
      malformed("it gives a result of kind {}, which is not supported", tagged.tag);
    }
  }
  return outputs;
}

ArgValue GraphImporter::number_argument(Json reference) {
  std::optional<Json> name = find(reference, "as_name");
  if (!name) {
    Tagged tagged = as_union(reference, "a number");
    if (tagged.tag == "as_int") return as_integer(tagged.value, tagged.tag);
    if (tagged.tag == "as_float") return as_real(tagged.value, tagged.tag);
    if (tagged.tag == "as_bool") return as_flag(tagged.value, tagged.tag);
    malformed("a number is written as {}", tagged.tag);
  }
  Binding& binding = scope.get(as_text(*name, "as_name"));
  if (binding.counted) return TensorArg{&binding};
  if (!binding.number) malformed("a tensor is used where a number is needed");
  return std::visit([](const auto& value) -> ArgValue { return value; }, *binding.number);
}

ArgValue GraphImporter::read_argument(Json argument) {
  const Tagged tagged = as_union(argument, "arg");
  const std::string_view tag = tagged.tag;
  const Json value = tagged.value;
  auto tensor = [&](Json reference) { return TensorArg{&scope.get(as_text(member(reference, "name"), "name"))}; };
  auto list = [&](auto result, auto convert) {
    for (Json one : as_array(value, tag)) result.push_back(convert(one));
    return ArgValue(std::move(result));
  };
  auto integer_of = [&](Json one) {
    ArgValue number = number_argument(one);
    const int64_t* integer = std::get_if<int64_t>(&number);
    if (std::holds_alternative<TensorArg>(number)) malformed("a size depends on the data; give it a static shape");
    if (!integer) malformed("a list of integers holds something else");
    return *integer;
  };
  if (tag == "as_tensor") {
    TensorArg arg = tensor(value);
    if (arg.binding->number)
      return std::visit([](const auto& number) -> ArgValue { return number; }, *arg.binding->number);
    return arg;
  }
  if (tag == "as_int") return as_integer(value, tag);
  if (tag == "as_float") return as_real(value, tag);
  if (tag == "as_none") return std::monostate{};
  if (tag == "as_ints") return list(Ints(), [&](Json one) { return as_integer(one, tag); });
  if (tag == "as_bool") return as_flag(value, tag);
  if (tag == "as_scalar_type") return dtype_from_code(as_integer(value, tag), "dtype");
  if (tag == "as_string") return std::string(as_text(value, tag));
  if (tag == "as_tensors") return list(std::vector<TensorArg>(), tensor);
  if (tag == "as_optional_tensors")
    return list(std::vector<TensorArg>(), [&](Json one) {
      Tagged option = as_union(one, tag);
      return option.tag == "as_tensor" ? tensor(option.value) : TensorArg{};
    });
  if (tag == "as_optional_tensor") {
    Tagged option = as_union(value, tag);
    if (option.tag == "as_tensor") return tensor(option.value);
    return std::monostate{};
  }
  if (tag == "as_sym_int" || tag == "as_sym_float" || tag == "as_sym_bool") return number_argument(value);
  if (tag == "as_sym_ints") return list(Ints(), integer_of);
  if (tag == "as_floats") return list(Doubles(), [&](Json one) { return as_real(one, tag); });
  if (tag == "as_bools") return list(std::vector<bool>(), [&](Json one) { return as_flag(one, tag); });
  if (tag == "as_strings") return list(Strings(), [&](Json one) { return std::string(as_text(one, tag)); });
  if (tag == "as_memory_format") return OtherArg{fmt::format("memory_format:{}", as_integer(value, tag))};
  if (tag == "as_layout") return OtherArg{fmt::format("layout:{}", as_integer(value, tag))};
  if (tag == "as_device") return OtherArg{fmt::format("device:{}", as_text(member(value, "type"), "type"))};
  if (tag == "as_complex")
    return ComplexArg{as_real(member(value, "real"), "real"), as_real(member(value, "imag"), "imag")};
  malformed("it has an argument of kind {}, which is not supported", tag);
}

void GraphImporter::fill_arguments(Call& call, const Fields& node, const Program::Target& known) {
  call.names.clear();
  call.args.clear();
  JsonArray inputs = node.inputs;
  if (!known.found.row) {
    for (Json input : inputs) {
      call.names.push_back(as_text(member(input, "name"), "name"));
      call.args.push_back(read_argument(member(input, "arg")));
    }
    return;
  }
  const std::vector<Param>& params = known.params;
  std::vector<bool> given(params.size(), false);
  call.args.resize(params.size());
  size_t position = 0;
  for (Json input : inputs) {
    std::string_view name = as_text(member(input, "name"), "name");
    size_t index = position;
    const bool named = !name.empty();  // the edge dialect's names are those of keywords only
    if (named && (index >= params.size() || params[index].name != name))
      for (index = 0; index < params.size() && params[index].name != name; ++index) {
      }
    if (index == params.size() && known.found.in_place && position == 0)
      index = 0;  // dropout(input, ...) but dropout_(self, ...)
    if (index == params.size()) unsupported("its argument `{}` is newer than this program", name);
    if (given[index]) malformed("its argument `{}` is given twice", name);
    call.args[index] = read_argument(member(input, "arg"));
    given[index] = true;
    position = index + 1;
  }
  for (size_t i = 0; i < params.size(); ++i) {
    call.names.push_back(params[i].name);
    if (given[i]) continue;
    if (params[i].required) malformed("its argument `{}` is missing", params[i].name);
    call.args[i] = params[i].fallback;
  }
}

void GraphImporter::import_operator(const Fields& node, std::string_view target, const Program::Target& known) {
  Outputs outputs = read_outputs(node);
  Call& call = call_;
  call.row = known.found.row;
  call.results.clear();
  call.wanted.clear();
  call.warning.clear();
  for (size_t i = 0; i < outputs.names.size(); ++i) {
    if (!outputs.tensors[i]) malformed("its result is a number that depends on the data; compute with tensors instead");
    call.results.push_back(outputs.metas[i].type);
    call.wanted.push_back(outputs.names.size() == 1 || outputs.list || used(outputs.names[i]));
  }
  std::vector<ValueId> values;
  std::string why = "no core operator expresses it";
  try {
    fill_arguments(call, node, known);
    const bool complex = std::any_of(call.args.begin(), call.args.end(), is_complex) ||
                         std::any_of(outputs.metas.begin(), outputs.metas.end(), [](auto& m) { return m.complex; });
    if (complex) return import_complex(node, target, outputs);
    if (call.row && call.row->build) values = call.row->build(call).values;
  } catch (const Unsupported& form) {
    values.clear();
    why = form.reason;
    if (call.args.size() != call.names.size()) {  // the schema did not fit: take the arguments as they are
      Program::Target unknown;
      fill_arguments(call, node, unknown);
    }
  }
  if (values.empty() && !outputs.names.empty()) {
    values = make_opaque(call, target);
    note(fmt::format("{} stays a host kernel: {}", target, why), false);
  }
  if (!call.warning.empty()) note(call.warning, true);
  bind_results(call, known, outputs, std::move(values));
}

void GraphImporter::import_complex(const Fields& node, std::string_view target, const Outputs& outputs) {
  Program::Target known = program_.complex_target(target);
  constexpr std::string_view kAdvice = "compute with real and imaginary parts";
  if (!known.found.row) malformed("it computes with complex numbers, which is not supported; {}", kAdvice);
  const Row& row = *known.found.row;
  const Row* plain = program_.target(target).found.row;
  const bool parts = !row.build || &row == plain;
  Results results(kNone);
  try {
    fill_arguments(call_, node, known);
    CHECK(row.build || (plain && plain->build), "no row does {} to each part", target);
    call_.row = parts ? plain : &row;
    results = parts ? by_parts(call_, *plain) : row.build(call_);
  } catch (const Unsupported& form) {  // no kernel of the host's takes complex numbers either
    malformed("it computes with complex numbers: {}; {}", form.reason, kAdvice);
  }
  if (parts) known.found.row = nullptr;  // the joined parts are no view
  bind_results(call_, known, outputs, std::move(results.values));
}

void GraphImporter::note(std::string message, bool warning) {
  const Loc* loc = graph_.loc(call_.loc);
  program_.notes.push_back({call_.name, loc ? to_text(*loc) : std::string(), std::move(message), warning});
}

void GraphImporter::bind_results(Call& call, const Program::Target& known, const Outputs& outputs,
                                 std::vector<ValueId> values) {
  if (values.size() != outputs.names.size())
    malformed("it has {} results where its operator gives {}", outputs.names.size(), values.size());
  const Row* row = known.found.row;
  TensorArg* self = call.args.empty() ? nullptr : std::get_if<TensorArg>(&call.args[0]);
  bool view = row && !known.found.copy && self && self->binding &&
              (row->kind == RowKind::View || (row->kind == RowKind::ViewIfContiguous && self->binding->contiguous));
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] == kNone) continue;
    const TensorMeta& meta = outputs.metas[i];
    const Type& made = graph_.type(values[i]);
    if (made.shape != meta.type.shape)
      malformed("the file says its result has the shape {}, but the operator gives {}", to_text(meta.type.shape),
                to_text(made.shape));
    if (made.dtype != meta.type.dtype) {
      if (made.quantized())
        malformed("the file says its result is {}, but the operator gives {}", to_text(meta.type), to_text(made));
      values[i] = call.cast(values[i], meta.type.dtype);
    }
    if (i == 0) call.give_name_to(values[i]);
    if (known.found.in_place && i == 0) {
      if (!self || !self->binding) malformed("an in-place operator has no tensor to change");
      Binding* target = self->binding;
      if (view) {  // unsqueeze_, detach_: only the view changes
        scope.bind_view(outputs.names[i], *target, scope.read(*target, call), values[i], meta.contiguous());
        *target = scope.get(outputs.names[i]);
      } else {
        scope.write(*target, values[i], call);
        scope.bind_alias(outputs.names[i], *target);
      }
    } else if (view) {
      scope.bind_view(outputs.names[i], *self->binding, scope.read(*self->binding, call), values[i], meta.contiguous());
    } else {
      scope.bind_value(outputs.names[i], values[i], meta.contiguous());
    }
    scope.get(outputs.names[i]).complex = meta.complex;
  }
}

Number GraphImporter::number_of(const ArgValue& value) const {
  if (const bool* flag = std::get_if<bool>(&value)) return *flag;
  if (const int64_t* integer = std::get_if<int64_t>(&value)) return *integer;
  if (const double* real = std::get_if<double>(&value)) return *real;
  malformed("it computes with something that is not a number");
}

// Python's arithmetic on numbers that depend on the data, and the comparisons that its checks make.
ValueId GraphImporter::computed_number(std::string_view target, const std::vector<ArgValue>& args) {
  std::vector<ValueId> operands;
  for (const ArgValue& arg : args) {
    const TensorArg* tensor = std::get_if<TensorArg>(&arg);
    const int64_t* integer = std::get_if<int64_t>(&arg);
    if (tensor) operands.push_back(scope.read(*tensor->binding, call_));
    if (integer) operands.push_back(call_.filled(DType::I64, {}, [&](int64_t) { return *integer; }));
  }
  const std::string_view fn = target.substr(target.rfind('.') + 1);
  if (operands.size() == 2 && args.size() == 2) {
    if (fn == "add") return call_.add(operands[0], operands[1]);
    if (fn == "sub") return call_.sub(operands[0], operands[1]);
    if (fn == "mul") return call_.mul(operands[0], operands[1]);
    for (std::string_view comparison : {"eq", "ne", "lt", "le", "gt", "ge"})
      if (fn == comparison) return call_.compare(fn, operands[0], operands[1]);
  }
  malformed("`{}` of a number that depends on the data is not supported; compute with tensors instead", target);
}

void GraphImporter::import_number(const Fields& node, std::string_view target) {
  Outputs outputs = read_outputs(node);
  std::vector<ArgValue> args;
  for (Json input : node.inputs) args.push_back(read_argument(member(input, "arg")));
  if (outputs.names.size() != 1) malformed("it should have one result, and has {}", outputs.names.size());
  auto counted = [](const ArgValue& arg) {
    const TensorArg* tensor = std::get_if<TensorArg>(&arg);
    return tensor && tensor->binding && tensor->binding->counted;
  };
  if (std::any_of(args.begin(), args.end(), counted))
    return scope.bind_counted(outputs.names[0], computed_number(target, args));
  std::optional<Number> result;
  const TensorArg* tensor = args.empty() ? nullptr : std::get_if<TensorArg>(&args[0]);
  if (tensor && tensor->binding) {
    if (tensor->binding->complex) malformed("it makes a number of a complex tensor");
    if (target == "aten.sym_size.int" && args.size() == 2) {
      const int64_t* axis = std::get_if<int64_t>(&args[1]);
      if (!axis) malformed("it asks for the size of an axis that is not a number");
      ValueId x = scope.read(*tensor->binding, call_);
      result = Number(call_.dim(x, normalised_axis(*axis, call_.rank(x))));
    } else if (target == "aten.sym_numel.default") {
      result = Number(element_count(call_.shape(scope.read(*tensor->binding, call_))));
    } else if (std::optional<double> known = call_.known_number(scope.read(*tensor->binding, call_))) {
      DType dtype = call_.dtype(scope.read(*tensor->binding, call_));
      result = is_float(dtype) ? Number(*known) : Number(static_cast<int64_t>(*known));
    } else if (ValueId x = scope.read(*tensor->binding, call_); is_integer(call_.dtype(x))) {
      return scope.bind_counted(outputs.names[0], call_.cast(call_.reshape(x, {}), DType::I64));
    }
    if (!result) malformed("its result is a number that depends on the data; compute with tensors instead");
  } else {
    std::vector<Number> numbers;
    for (const ArgValue& arg : args) numbers.push_back(number_of(arg));
    result = fold_number(target, numbers);
    if (!result) malformed("the arithmetic on sizes `{}` is not supported", target);
  }
  scope.bind_number(outputs.names[0], *result);
}

}  // namespace swoop
