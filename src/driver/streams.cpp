#include "driver/streams.h"

#include <algorithm>

#include "emit/emit.h"
#include "ir/ir.h"
#include "report/report.h"

namespace swoop {

namespace {

Result<NpuStream> read_stream(const ProgramDelegate& delegate) {
  TRY_ASSIGN(NpuProgram program, unpack(delegate.blob));
  TRY_ASSIGN(DriverPayload payload, parse_payload(program.commands));
  NpuStream stream;
  stream.npu = payload.config.name();
  TRY_ASSIGN(stream.commands, decode_commands(payload));
  stream.transfers = transfer_uses(stream.commands);
  for (const auto& [key, value] : delegate.compile_specs) {
    if (key != kLayersKey) continue;
    TRY_ASSIGN(stream.map, unpack_layers(value));
    for (const MappedLayer& layer : stream.map->layers) {
      std::optional<DType> dtype = dtype_from(layer.dtype);
      if (!dtype || !(is_integer(*dtype) || (*dtype == DType::Bool && !layer.quant)))
        return error("the map of layers has a layer of type {}, which no NPU has", printable(layer.dtype));
    }
    for (MappedLayer& layer : stream.map->layers)
      for (std::string* text : {&layer.name, &layer.op, &layer.source}) *text = printable(*text);
  }
  return stream;
}

}  // namespace

const StreamOperation* NpuStream::operation_of(const NpuStep& step) const {
  if (!map) return nullptr;
  auto from = [&](uint32_t position) {
    return std::lower_bound(map->operations.begin(), map->operations.end(), position,
                            [](const StreamOperation& operation, uint32_t word) { return operation.position < word; });
  };
  auto at = from(step.position);
  if (!step.kernel && (at == map->operations.end() || at->position != step.position)) {
    auto use = std::lower_bound(transfers.begin(), transfers.end(), step.position,
                                [](const TransferUse& u, uint32_t word) { return u.transfer < word; });
    if (use == transfers.end() || use->transfer != step.position) return nullptr;
    at = from(use->user);
  }
  return at != map->operations.end() ? &*at : nullptr;
}

Result<std::vector<NpuStream>> read_streams(Bytes pte) {
  TRY_ASSIGN(ProgramInfo info, read_pte(pte));
  std::vector<NpuStream> streams;
  for (const ProgramMethod& method : info.methods) {
    if (info.methods.size() > 1 && method.name != "forward") continue;
    for (const ProgramDelegate& delegate : method.delegates) {
      if (delegate.id != kNpuBackend) continue;
      TRY_ASSIGN(NpuStream stream, read_stream(delegate));
      streams.push_back(std::move(stream));
    }
  }
  return streams;
}

}  // namespace swoop
