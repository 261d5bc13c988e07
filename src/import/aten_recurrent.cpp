// LSTM, GRU and plain recurrent networks, unrolled step by step. The products with the inputs of all steps are one
// linear; only the products with the hidden state stay inside of the recurrence.
#include <algorithm>

#include "import/aten.h"

namespace swoop {

namespace {

constexpr int64_t kMaxSteps = 20000;  // more would be a graph that nobody can compile

struct Cell {
  ValueId w_hh = kNone;
  ValueId b_hh = kNone;
  ValueId w_hr = kNone;  // of LSTM with proj_size: what it gives is a projection of its state
};

struct State {
  ValueId h = kNone;
  ValueId c = kNone;  // of LSTM
};

using Step = State (*)(Call& c, const Cell& cell, ValueId from_input, State state);

std::vector<ValueId> gates(Call& c, ValueId x, int64_t count) {
  int64_t axis = c.rank(x) - 1;
  int64_t width = c.dim(x, axis) / count;
  std::vector<ValueId> parts;
  for (int64_t i = 0; i < count; ++i) parts.push_back(c.slice(x, axis, i * width, (i + 1) * width));
  return parts;
}

// PyTorch's gate order: input, forget, cell, output.
State lstm_step(Call& c, const Cell& cell, ValueId from_input, State state) {
  std::vector<ValueId> g = gates(c, c.add(from_input, c.linear(state.h, cell.w_hh, cell.b_hh)), 4);
  ValueId kept = c.mul(c.unary("sigmoid", g[1]), state.c);
  ValueId added = c.mul(c.unary("sigmoid", g[0]), c.unary("tanh", g[2]));
  ValueId next = c.add(kept, added);
  ValueId h = c.mul(c.unary("sigmoid", g[3]), c.unary("tanh", next));
  return {cell.w_hr == kNone ? h : c.linear(h, cell.w_hr, kNone), next};
}

// reset, update, new: h' = n + z * (h - n)
State gru_step(Call& c, const Cell& cell, ValueId from_input, State state) {
  std::vector<ValueId> x = gates(c, from_input, 3);
  std::vector<ValueId> h = gates(c, c.linear(state.h, cell.w_hh, cell.b_hh), 3);
  ValueId reset = c.unary("sigmoid", c.add(x[0], h[0]));
  ValueId update = c.unary("sigmoid", c.add(x[1], h[1]));
  ValueId fresh = c.unary("tanh", c.add(x[2], c.mul(reset, h[2])));
  return {c.add(fresh, c.mul(update, c.sub(state.h, fresh))), kNone};
}

State tanh_step(Call& c, const Cell& cell, ValueId from_input, State state) {
  return {c.unary("tanh", c.add(from_input, c.linear(state.h, cell.w_hh, cell.b_hh))), kNone};
}

State relu_step(Call& c, const Cell& cell, ValueId from_input, State state) {
  return {c.clamp(c.add(from_input, c.linear(state.h, cell.w_hh, cell.b_hh)), 0.0, std::nullopt), kNone};
}

Step step_of(const Call& c) {
  if (c.detail() == "lstm") return lstm_step;
  if (c.detail() == "gru") return gru_step;
  return c.detail() == "tanh" ? tanh_step : relu_step;
}

struct Layout {
  bool biases = false;
  int64_t layers = 0;
  bool bidirectional = false;
  bool projects = false;
  int64_t directions() const { return bidirectional ? 2 : 1; }
  size_t runs() const { return static_cast<size_t>(layers * directions()); }
  size_t params_per_run() const { return (biases ? 4u : 2u) + (projects ? 1u : 0u); }
};

// One direction of one layer over x[T, B, I]; appends the hidden states in time order. `params`: its own.
State run_direction(Call& c, Step step, ValueId x, std::span<const ValueId> params, const Layout& layout, bool backward,
                    State state, std::vector<ValueId>& outputs) {
  Cell cell{params[1], layout.biases ? params[3] : kNone, layout.projects ? params.back() : kNone};
  ValueId projected = c.linear(x, params[0], layout.biases ? params[2] : kNone);  // all steps at once
  int64_t steps = c.dim(x, 0);
  outputs.assign(static_cast<size_t>(steps), kNone);
  for (int64_t i = 0; i < steps; ++i) {
    int64_t t = backward ? steps - 1 - i : i;
    state = step(c, cell, c.select(projected, 0, t), state);
    outputs[static_cast<size_t>(t)] = state.h;
  }
  return state;
}

// hx of [layers * directions, B, H] for h, and the same for c
Results run(Call& c, ValueId h0, ValueId c0, size_t params_at) {
  ValueId input = c.tensor(0);
  std::vector<ValueId> params = c.tensors(params_at);
  Layout layout{c.flag(params_at + 1), c.integer(params_at + 2), c.flag(params_at + 5)};
  const bool countable = layout.layers > 0 && layout.layers <= 1000;
  layout.projects = c.detail() == "lstm" && countable && params.size() > layout.params_per_run() * layout.runs();
  if (c.flag(params_at + 4) && c.real(params_at + 3) != 0) unsupported("dropout between layers in training mode");
  bool batch_first = c.flag(params_at + 6);
  bool unbatched = c.rank(input) == 2;
  if (unbatched) {
    input = c.unsqueeze(input, 1);
    h0 = c.unsqueeze(h0, 1);
    if (c0 != kNone) c0 = c.unsqueeze(c0, 1);
  } else if (c.rank(input) != 3) {
    malformed("its input has {} dimensions", c.rank(input));
  } else if (batch_first) {
    input = c.swap(input, 0, 1);
  }
  const size_t per_run = layout.params_per_run();
  if (!countable || params.size() != per_run * layout.runs() ||
      std::find(params.begin(), params.end(), kNone) != params.end())
    unsupported("a recurrent network with {} weights for {} layers", params.size(), layout.layers);
  int64_t steps = c.dim(input, 0);
  if (steps == 0 || steps * layout.layers * layout.directions() > kMaxSteps)
    unsupported("a recurrent network over {} steps", steps);

  std::vector<ValueId> last_h, last_c;
  for (int64_t layer = 0; layer < layout.layers; ++layer) {
    std::vector<ValueId> sides;
    for (int64_t direction = 0; direction < layout.directions(); ++direction) {
      int64_t index = layer * layout.directions() + direction;
      State state{c.select(h0, 0, index), c0 == kNone ? kNone : c.select(c0, 0, index)};
      std::vector<ValueId> outputs;
      state =
          run_direction(c, step_of(c), input, std::span(params).subspan(per_run * static_cast<size_t>(index), per_run),
                        layout, direction == 1, state, outputs);
      for (ValueId& output : outputs) output = c.unsqueeze(output, 0);
      sides.push_back(c.concat(std::move(outputs), 0));
      last_h.push_back(c.unsqueeze(state.h, 0));
      if (state.c != kNone) last_c.push_back(c.unsqueeze(state.c, 0));
    }
    input = c.concat(std::move(sides), 2);
  }
  auto unstack = [&](ValueId x, size_t result) { return c.reshape(x, c.result(result).shape); };
  ValueId output = batch_first && !unbatched ? c.swap(input, 0, 1) : input;
  std::vector<ValueId> results = {unstack(output, 0), unstack(c.concat(std::move(last_h), 0), 1)};
  if (!last_c.empty()) results.push_back(unstack(c.concat(std::move(last_c), 0), 2));
  return results;
}

Results lstm(Call& c) {
  std::vector<ValueId> hx = c.tensors(1);
  if (hx.size() != 2 || hx[0] == kNone || hx[1] == kNone) malformed("it needs a hidden and a cell state");
  return run(c, hx[0], hx[1], 2);
}

Results recurrent(Call& c) { return run(c, c.tensor(1), kNone, 2); }

Results lstm_cell(Call& c) {
  std::vector<ValueId> hx = c.tensors(1);
  if (hx.size() != 2 || hx[0] == kNone || hx[1] == kNone) malformed("it needs a hidden and a cell state");
  ValueId projected = c.linear(c.tensor(0), c.tensor(2), c.tensor_or_none(4));
  State state = lstm_step(c, {c.tensor(3), c.tensor_or_none(5)}, projected, {hx[0], hx[1]});
  return std::vector<ValueId>{state.h, state.c};
}

Results cell(Call& c) {
  ValueId projected = c.linear(c.tensor(0), c.tensor(2), c.tensor_or_none(4));
  return step_of(c)(c, {c.tensor(3), c.tensor_or_none(5)}, projected, {c.tensor(1), kNone}).h;
}

constexpr std::string_view kNetwork =
    "input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first";
constexpr std::string_view kCell = "input, hx, w_ih, w_hh, b_ih=None, b_hh=None";

constexpr Row kRecurrentRows[] = {
    {"aten.lstm.input", kNetwork, lstm, "lstm"},          {"aten.gru.input", kNetwork, recurrent, "gru"},
    {"aten.rnn_tanh.input", kNetwork, recurrent, "tanh"}, {"aten.rnn_relu.input", kNetwork, recurrent, "relu"},
    {"aten.lstm_cell.default", kCell, lstm_cell, "lstm"}, {"aten.gru_cell.default", kCell, cell, "gru"},
    {"aten.rnn_tanh_cell.default", kCell, cell, "tanh"},  {"aten.rnn_relu_cell.default", kCell, cell, "relu"},
};

}  // namespace

std::span<const Row> recurrent_rows() { return kRecurrentRows; }

}  // namespace swoop
