#include "driver/layers.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "driver/read_model.h"
#include "report/report.h"
#include "support/file.h"
#include "support/npy.h"

namespace swoop {

namespace {

Type type_of(const MappedLayer& layer) {
  Type type{*dtype_from(layer.dtype), layer.shape, {}};
  if (layer.quant) type = quantized(type.dtype, type.shape, layer.quant->first, layer.quant->second);
  return type;
}

double element(const Tensor& tensor, size_t i) {
  if (tensor.dtype == DType::F32) return static_cast<double>(tensor.as<float>()[i]);
  return tensor.dtype == DType::I64 ? static_cast<double>(tensor.as<int64_t>()[i])
                                    : static_cast<double>(tensor.as<uint8_t>()[i]);
}

// The model's value in the layer's order of elements; nullopt: it does not fit.
std::optional<Tensor> moved(const Tensor& value, const MappedLayer& layer) {
  if (element_count(value.shape) != element_count(layer.shape)) return std::nullopt;
  Tensor at = value;
  for (const MappedLayer::Move& move : layer.moves) {
    if (!move.transpose) {
      if (element_count(move.to) != element_count(at.shape)) return std::nullopt;
      at.shape = move.to;
    } else {
      if (move.to.size() != at.shape.size()) return std::nullopt;
      at = transposed(at, move.to);
    }
  }
  if (at.shape != layer.shape) return std::nullopt;
  return at;
}

std::string db_text(const Noise& noise) { return noise.error == 0 ? "exact" : fmt::format("{:.1f}", noise.db()); }

std::string_view numpy_type(const MappedLayer& layer) {
  switch (byte_size(*dtype_from(layer.dtype))) {
    case 1: return layer.dtype == "bool" ? "|b1" : layer.dtype == "u8" ? "|u1" : "|i1";
    case 2: return "<i2";
    case 4: return "<i4";
    default: return "<i8";
  }
}

}  // namespace

LayerReport::LayerReport(std::span<const NpuStream> streams) : streams_(streams), collector_(streams) {
  for (size_t s = 0; s < streams_.size(); ++s) {
    for (size_t l = 0; streams_[s].map && l < streams_[s].map->layers.size(); ++l) {
      Row& row = rows_.emplace_back();
      row.stream = s;
      row.layer = l;
      row.min = INFINITY;
      row.max = -INFINITY;
    }
  }
}

Result<void> LayerReport::compare_with(const std::string& model, const std::string& inputs) {
  TRY_ASSIGN(model_, read_model(model));
  TRY_ASSIGN(samples_, load_samples(inputs, *model_));
  return {};
}

Result<void> LayerReport::after_run(int64_t run, std::span<const RunTensor> outputs) {
  values_.clear();
  if (model_) {
    const auto sample = static_cast<size_t>(run);
    if (sample >= samples_.inputs.size())
      return error("--model reads {} samples from the inputs, the program more", samples_.inputs.size());
    for (const Row& row : rows_)
      if (!layer_of(row).value.empty()) values_[layer_of(row).value];
    std::vector<Tensor> inputs = samples_.inputs[sample];
    carry_state(*model_, previous_, inputs);
    auto keep = [&](const Graph& graph, ValueId id, const Tensor& tensor) {
      const std::optional<Origin>& origin = graph.value(id).origin;
      if (auto wanted = origin ? values_.find(origin->name) : values_.end(); wanted != values_.end())
        wanted->second = tensor;
    };
    TRY_ASSIGN(previous_, execute(*model_, inputs, {opaque_.get(), keep}));
    compare_outputs(previous_, outputs);
  }
  for (Row& row : rows_) {
    take(row);
    compare(row);
  }
  collector_.clear();
  return {};
}

void LayerReport::take(Row& row) {
  row.codes.clear();
  if (!collector_.ran(row.stream, row.layer)) return;
  row.ran = true;
  Result<Buffer> codes = collector_.output(row.stream, row.layer);
  if (!codes) {
    row.missing = codes.error().message;
    return;
  }
  row.codes = std::move(*codes);
  Tensor tensor = dequantize(row.codes, type_of(layer_of(row)));
  for (size_t i = 0; i < static_cast<size_t>(element_count(tensor.shape)); ++i) {
    row.min = std::min(row.min, element(tensor, i));
    row.max = std::max(row.max, element(tensor, i));
  }
}

void LayerReport::compare(Row& row) {
  const MappedLayer& layer = layer_of(row);
  auto value = values_.find(layer.value);
  if (row.codes.empty() || value == values_.end() || value->second.data.empty()) return;
  std::optional<Tensor> expected = moved(value->second, layer);
  if (!expected) return;
  Tensor actual = dequantize(row.codes, type_of(layer));
  if (actual.dtype != expected->dtype) return;
  row.compared = true;
  row.noise.add(*expected, actual);
  for (size_t i = 0; i < static_cast<size_t>(element_count(actual.shape)); ++i)
    if (double x = element(*expected, i); std::isfinite(x))
      row.max_error = std::max(row.max_error, std::fabs(x - element(actual, i)));
}

// Float outputs of the program against those of the model.
void LayerReport::compare_outputs(std::span<const Tensor> expected, std::span<const RunTensor> outputs) {
  size_t next = 0;
  for (size_t i = 0; i < expected.size() && next < outputs.size(); ++i) {
    if (model_->output_port(i).role != Port::Role::User) continue;
    const RunTensor& output = outputs[next++];
    if (expected[i].dtype != DType::F32 || output.dtype != "float32" || output.shape != expected[i].shape) continue;
    if (outputs_.size() < next) outputs_.resize(next);
    outputs_[next - 1].add(expected[i], {DType::F32, output.shape, Storage(output.data)});
  }
}

std::string LayerReport::to_text() const {
  std::string text =
      fmt::format("{:>3}  {:<26} {:<14} {:<28} {:<20} {:>10} {:>10} {:>8} {:>10}  {}\n", "", "layer", "op", "type",
                  "source", "min", "max", model_ ? "SQNR dB" : "", model_ ? "max error" : "", model_ ? "against" : "");
  const Row* worst = nullptr;
  for (size_t i = 0; i < rows_.size(); ++i) {
    const Row& row = rows_[i];
    const MappedLayer& layer = layer_of(row);
    text += fmt::format("{:>3}  {:<26} {:<14} {:<28} {:<20} ", i, layer.name, layer.op,
                        layer.dtype + swoop::to_text(layer.shape), layer.source);
    if (layer.inside) {
      text += fmt::format("inside {} ({})\n", streams_[row.stream].map->layers[*layer.inside].name,
                          i - row.layer + *layer.inside);
      continue;
    }
    if (!row.ran || !row.missing.empty()) {
      text += row.ran ? fmt::format("not shown: {}\n", row.missing) : "did not run\n";
      continue;
    }
    text += fmt::format("{:>10.4g} {:>10.4g}", row.min, row.max);
    if (row.compared)
      text += fmt::format(" {:>8} {:>10.3g}  {}", db_text(row.noise), row.max_error, printable(layer.value));
    text += "\n";
    if (row.compared && (!worst || row.noise.db() < worst->noise.db())) worst = &row;
  }
  if (!model_) return text + "add --model MODEL.pt2 to compare each layer with the model's own value\n";
  if (!worst)
    return text +
           "no layer was compared: the model has none of the values that this program names; give the .pt2 it was "
           "compiled "
           "from\n";
  for (size_t i = 0; i < outputs_.size(); ++i)
    text += fmt::format("output {}: {}\n", i,
                        outputs_[i].error == 0 ? "equal" : fmt::format("SQNR {:.1f} dB", outputs_[i].db()));
  if (worst->noise.error == 0) return text + "every layer that was compared is exact\n";
  return text + fmt::format("worst layer: {} {}, SQNR {:.1f} dB\n", layer_of(*worst).name, layer_of(*worst).source,
                            worst->noise.db());
}

Result<void> LayerReport::dump(const std::string& directory) const {
  TRY(make_directory(directory));
  for (size_t i = 0; i < rows_.size(); ++i) {
    if (rows_[i].codes.empty()) continue;
    const MappedLayer& layer = layer_of(rows_[i]);
    std::string name = layer.name;
    std::replace_if(
        name.begin(), name.end(),
        [](char c) { return !std::isalnum(static_cast<unsigned char>(c)) && c != '_' && c != '-' && c != '.'; }, '_');
    TRY(write_file(fmt::format("{}/layer{:02}_{}.npy", directory, i, name),
                   Bytes(write_npy({std::string(numpy_type(layer)), layer.shape, rows_[i].codes}))));
  }
  return {};
}

}  // namespace swoop
