#include "import/import.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <new>

#include "import/importer.h"
#include "support/nearest.h"

namespace swoop {

namespace {

// The signature says what each graph input and output is; this walks both around the nodes.
class ProgramImporter {
 public:
  ProgramImporter(Program& program, Graph& graph)
      : program_(program),
        graph_(graph),
        module_(member(program.archive.model(), "graph_module")),
        definition_(member(module_, "graph")),
        signature_(member(module_, "signature")),
        main_(program, graph, definition_, false) {}

  void run(const OpenSizes& sizes) {
    read_specs();
    collect_mutations();
    settle_sizes(sizes);
    bind_inputs();
    main_.import_nodes();
    add_outputs();
    graph_.erase_dead();
  }

 private:
  struct Mutation {
    std::string_view value;
    std::string_view name;
    Port::Role role;
  };

  void read_specs() {
    std::optional<Json> calls = find(module_, "module_call_graph");
    if (!calls) return;
    for (Json call : as_array(*calls, "module_call_graph")) {
      std::optional<Json> fqn = find(call, "fqn");
      std::optional<Json> signature = find(call, "signature");
      if (!fqn || !as_text(*fqn, "fqn").empty() || !signature) continue;
      if (std::optional<Json> spec = find(*signature, "in_spec")) graph_.in_spec = as_text(*spec, "in_spec");
      if (std::optional<Json> spec = find(*signature, "out_spec")) graph_.out_spec = as_text(*spec, "out_spec");
      return;
    }
  }

  void collect_mutations() {
    for (Json spec : as_array(member(signature_, "output_specs"), "output_specs")) {
      auto [kind, value] = as_union(spec, "output_specs");
      if (kind == "buffer_mutation") add_mutation(value, "buffer_name", Port::Role::State);
      if (kind == "parameter_mutation") add_mutation(value, "parameter_name", Port::Role::State);
      if (kind == "user_input_mutation") add_mutation(value, "user_input_name", Port::Role::Mutation);
    }
  }

  void add_mutation(Json spec, std::string_view key, Port::Role role) {
    mutations_.push_back({as_text(member(member(spec, "arg"), "name"), "name"), as_text(member(spec, key), key), role});
  }

  bool is_mutated(std::string_view name, Port::Role role) const {
    return std::any_of(mutations_.begin(), mutations_.end(),
                       [&](const Mutation& m) { return m.role == role && m.name == name; });
  }

  JsonArray input_specs() const { return as_array(member(signature_, "input_specs"), "input_specs"); }

  struct InputSizes {
    std::string_view name;
    JsonArray sizes;
  };

  std::vector<InputSizes> input_sizes() const {
    std::vector<InputSizes> inputs;
    for (Json spec : input_specs()) {
      std::optional<Json> user = find(spec, "user_input");
      std::optional<Json> tensor = user ? find(member(*user, "arg"), "as_tensor") : std::nullopt;
      if (!tensor) continue;
      std::string_view name = as_text(member(*tensor, "name"), "name");
      std::optional<Json> values = find(definition_, "tensor_values");
      std::optional<Json> meta = values ? find(*values, name) : std::nullopt;
      if (meta) inputs.push_back({name, as_array(member(*meta, "sizes"), "sizes")});
    }
    return inputs;
  }

  // Gives open sizes of inputs the values that the caller asked for, and refuses what is still open.
  void settle_sizes(const OpenSizes& wanted) {
    const std::vector<InputSizes> inputs = input_sizes();
    check_names(wanted, inputs);
    for (const InputSizes& input : inputs) give_sizes(wanted, input);
    for (const InputSizes& input : inputs) check_sizes(wanted, input);
    if (!program_.problems.empty()) throw Malformed{""};
  }

  void check_names(const OpenSizes& wanted, const std::vector<InputSizes>& inputs) {
    std::vector<std::string> names;
    for (const InputSizes& input : inputs) names.emplace_back(input.name);
    for (const auto& [name, shape] : wanted.shapes)
      if (std::find(names.begin(), names.end(), name) == names.end())
        program_.problem(fmt::format("--shape {}={}: the inputs are {}{}", name, fmt::join(shape, "x"),
                                     fmt::join(names, ", "), did_you_mean(name, names)));
  }

  void give_sizes(const OpenSizes& wanted, const InputSizes& input) {
    auto shape = wanted.shapes.find(std::string(input.name));
    if (shape != wanted.shapes.end() && shape->second.size() != input.sizes.size()) {
      program_.problem(fmt::format("--shape {}={}: the input has {} dimensions", input.name,
                                   fmt::join(shape->second, "x"), input.sizes.size()));
      return;
    }
    size_t axis = 0;
    for (Json size : input.sizes) {
      std::optional<int64_t> value;
      if (shape != wanted.shapes.end())
        value = shape->second[axis];
      else if (axis == 0)
        value = wanted.batch;
      std::string open = program_.symbols.open_symbol(size);
      if (value && !open.empty() && !program_.symbols.give(size, *value))
        program_.problem(
            fmt::format("Dimension {} of the input `{}` cannot be {} ({}).", axis, input.name, *value, open));
      ++axis;
    }
  }

  void check_sizes(const OpenSizes& wanted, const InputSizes& input) {
    auto shape = wanted.shapes.find(std::string(input.name));
    size_t axis = 0;
    for (Json size : input.sizes) {
      if (std::string open = program_.symbols.open_symbol(size); !open.empty()) {
        program_.problem(
            fmt::format("Dimension {} of the input `{}` is dynamic ({}); {}give the whole shape as --shape {}=NxN..., "
                        "or export the "
                        "model with static shapes.",
                        axis, input.name, open, axis == 0 ? "give it a size with --batch N, " : "", input.name));
      } else if (shape != wanted.shapes.end() && axis < shape->second.size() &&
                 program_.symbols.value(size, input.name) != shape->second[axis]) {
        program_.problem(fmt::format("--shape {}={}: dimension {} was exported as {}.", input.name,
                                     fmt::join(shape->second, "x"), axis, program_.symbols.value(size, input.name)));
      }
      ++axis;
    }
  }

  void bind_inputs() {
    for (Json spec : input_specs()) {
      auto [kind, value] = as_union(spec, "input_specs");
      if (kind == "parameter") {
        bind_weight(value, "parameter_name", true);
      } else if (kind == "buffer") {
        std::optional<Json> persistent = find(value, "persistent");
        bind_weight(value, "buffer_name", !persistent || as_flag(*persistent, "persistent"));
      } else if (kind == "tensor_constant") {
        bind_weight(value, "tensor_constant_name", false);
      } else if (kind == "user_input") {
        bind_user_input(member(value, "arg"));
      } else if (kind == "constant_input") {
        bind_constant_input(as_text(member(value, "name"), "name"), member(value, "value"));
      } else if (kind != "token") {
        malformed("The program takes an input of kind `{}`, which is not supported.", kind);
      }
    }
  }

  void bind_weight(Json spec, std::string_view key, bool persistent) {
    std::string_view fqn = as_text(member(spec, key), key);
    std::string_view name = as_text(member(member(spec, "arg"), "name"), "name");
    main_.scope.bind_constant(name, fqn, program_.weight(fqn, persistent));
    const std::vector<std::string>& states = program_.states;
    if (is_mutated(fqn, Port::Role::State) || std::find(states.begin(), states.end(), fqn) != states.end())
      main_.scope.make_state(main_.scope.storage(main_.scope.get(name)));
  }

  void bind_user_input(Json argument) {
    auto [kind, value] = as_union(argument, "user_input");
    if (kind == "as_none") return;
    if (kind != "as_tensor")
      malformed("The program takes an argument that is not a tensor ({}); make it a constant before export.", kind);
    std::string name(as_text(member(value, "name"), "name"));
    TensorMeta meta = main_.declared(name);
    if (meta.complex) malformed("The input `{}` is complex; take its real and imaginary parts as an input.", name);
    ValueId input = graph_.add_input(meta.type, name, {Port::Role::User, name, {}});
    TensorStorage& storage = main_.scope.bind_value(as_text(member(value, "name"), "name"), input, meta.contiguous());
    storage.origin = TensorStorage::Origin::UserInput;
    storage.name = name;
  }

  void bind_constant_input(std::string_view name, Json value) {
    auto [kind, content] = as_union(value, "constant_input");
    if (kind == "as_int") return main_.scope.bind_number(name, as_integer(content, kind));
    if (kind == "as_float") return main_.scope.bind_number(name, as_real(content, kind));
    if (kind == "as_bool") return main_.scope.bind_number(name, as_flag(content, kind));
    if (kind == "as_string") return main_.scope.bind_number(name, std::string(as_text(content, kind)));
    main_.scope.bind_absent(name);
  }

  // State and written-back inputs first, then the user's results, as torch.export orders them.
  void add_outputs() {
    for (const Mutation& mutation : mutations_)
      graph_.add_output(main_.read(mutation.value), {mutation.role, std::string(mutation.name), {}});
    for (const TensorStorage& storage : main_.scope.storages()) {
      if (storage.version == 0) continue;
      if (storage.origin == TensorStorage::Origin::State && !is_mutated(storage.name, Port::Role::State))
        graph_.add_output(storage.value, {Port::Role::State, storage.name, {}});
      if (storage.origin == TensorStorage::Origin::UserInput && !is_mutated(storage.name, Port::Role::Mutation))
        graph_.add_output(storage.value, {Port::Role::Mutation, storage.name, {}});
    }
    size_t index = 0;
    for (Json spec : as_array(member(signature_, "output_specs"), "output_specs")) {
      auto [kind, value] = as_union(spec, "output_specs");
      if (kind == "user_output" || kind == "loss_output") add_user_output(member(value, "arg"), index++);
    }
    if (graph_.outputs().empty()) malformed("The program has no results, so there is nothing to compile.");
  }

  void add_user_output(Json argument, size_t index) {
    auto [kind, value] = as_union(argument, "user_output");
    if (kind == "as_none") return;
    std::string_view name;
    if (kind == "as_tensor") name = as_text(member(value, "name"), "name");
    Binding* binding = name.empty() ? nullptr : &main_.scope.get(name);
    if (!binding || binding->number || binding->absent)
      malformed("Output {} of the program is a Python number or text; return tensors only.", index);
    if (binding->complex) malformed("The output `{}` is complex; return torch.view_as_real() of it.", name);
    graph_.add_output(main_.read(name), {Port::Role::User, std::string(name), {}});
  }

  Program& program_;
  Graph& graph_;
  Json module_;
  Json definition_;
  Json signature_;
  GraphImporter main_;
  std::vector<Mutation> mutations_;
};

// `states`: buffers that are known to be written to after they are read
Result<Graph> import_once(Bytes file, const ImportOptions& options, const std::vector<std::string>& states,
                          std::vector<ImportNote>* notes) {
  Graph graph;
  std::vector<std::string> problems;
  std::string fault;
  try {
    Budget budget{options.memory_limit};
    Archive archive(file, options, graph, budget);
    Program program(archive, budget);
    program.states = states;
    try {
      ProgramImporter(program, graph).run(options.sizes);
    } catch (const Malformed& broken) {
      fault = broken.message;
      if (fault.empty() && program.problems.empty()) fault = "The program could not be read.";
    }
    problems = std::move(program.problems);
    if (notes) *notes = std::move(program.notes);
  } catch (const Malformed& broken) {
    fault = broken.message;
  } catch (const std::bad_alloc&) {
    fault = "The program does not fit into this machine's memory.";
  }
  if (!fault.empty()) problems.push_back(fault);
  if (!problems.empty()) return error("{}", fmt::join(problems, "\n"));
  if (std::optional<std::string> broken = verify(graph)) return error("The program is not consistent: {}.", *broken);
  return graph;
}

}  // namespace

Result<Graph> import_pt2(Bytes file, const ImportOptions& options, std::vector<ImportNote>* notes) {
  std::vector<std::string> states;
  while (true) {
    try {
      return import_once(file, options, states, notes);
    } catch (const BecomesState& late) {
      states.push_back(late.name);
    }
  }
}

Result<Graph> import_pt2(std::shared_ptr<const MappedFile> file, const ImportOptions& options,
                         std::vector<ImportNote>* notes) {
  TRY_ASSIGN(Graph graph, import_pt2(file->bytes(), options, notes));
  graph.keep_alive(std::move(file));
  return graph;
}

Result<Graph> import_pt2(const std::string& path, const ImportOptions& options, std::vector<ImportNote>* notes) {
  TRY_ASSIGN(std::shared_ptr<const MappedFile> file, MappedFile::open(path));
  return import_pt2(std::move(file), options, notes);
}

}  // namespace swoop
