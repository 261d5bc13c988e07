#include "driver/regions.h"

#include <algorithm>
#include <utility>

#include "driver/cost.h"
#include "driver/layer_map.h"
#include "driver/npu_code.h"
#include "lower/lower.h"
#include "npu/npu.h"
#include "report/report.h"
#include "support/file.h"
#include "support/parallel.h"

namespace swoop {

namespace {

Result<NpuProgram> code_of(const CompiledRegion& region, const Pipeline& pipeline, bool moves_weights,
                           const std::string& name) {
  if (!moves_weights) return compile_npu(region.tosa_bytes, pipeline.target, pipeline.options.npu, name);
  if (const NpuProgram* priced = priced_program(pipeline, region.tosa_bytes)) return *priced;
  return npu_code(region.tosa_bytes, pipeline.target, pipeline.options, name);
}

// `refusal`: what regor did instead of compiling it.
Result<void> compile_region(CompiledRegion& region, const Pipeline& pipeline, bool moves_weights,
                            const std::string& name, std::string& refusal) {
  if (!region.blob.empty()) return {};
  Result<NpuProgram> program = code_of(region, pipeline, moves_weights, name);
  const Result<void> whole = program ? check_ports(region.tosa, *program) : program.error();
  if (!whole) {
    refusal = whole.error().message;
    return {};
  }
  region.program = std::move(*program);
  // What the rehearsal cannot follow is left to the check that runs the file.
  if (Result<std::vector<NpuFault>> repairs = repair_npu(region.program)) region.repairs = std::move(*repairs);
  TRY_ASSIGN(region.blob, pack(region.program));
  region.program.weights = Buffer();  // the blob has them; {} would keep the memory
  const std::string& dump = pipeline.options.dump;
  if (!dump.empty() && region.program.estimates)
    TRY(write_file(fmt::format("{}/{}.csv", dump, name), layers_csv(*region.program.estimates)));
  return {};
}

}  // namespace

bool has_moved_weights(const CompiledRegion& region) {
  const std::optional<Estimates>& estimates = region.program.estimates;
  return estimates && (estimates->kept || estimates->ahead || estimates->products > 0);
}

Result<std::vector<RegionFault>> lower_regions(std::vector<CompiledRegion>& regions, const Pipeline& pipeline,
                                               const tosa::Program* given) {
  std::vector<RegionFault> faults;
  std::vector<CompiledRegion> before = std::exchange(regions, {});
  for (const auto& region : pipeline.partition.regions) {
    CompiledRegion& compiled = regions.emplace_back();
    std::string culprit;
    Result<tosa::Program> lowered = given ? *given : lower(*region, &culprit);
    if (!lowered && culprit.empty()) return lowered.error();
    if (!lowered) {
      faults.push_back({regions.size() - 1, lowered.error().message, {}, culprit});
      continue;
    }
    compiled.tosa = std::move(*lowered);
    join_rescales(compiled.tosa, pipeline.target);
    avoid_defects(compiled.tosa, pipeline.target);
    compiled.tosa_bytes = tosa::write(compiled.tosa);
    auto same = std::find_if(before.begin(), before.end(),
                             [&](const CompiledRegion& old) { return old.tosa_bytes == compiled.tosa_bytes; });
    if (same != before.end()) compiled = std::move(*same);
    if (const std::string& dump = pipeline.options.dump; !dump.empty())
      TRY(write_file(fmt::format("{}/{}.tosa", dump, region->name), compiled.tosa_bytes));
  }
  return faults;
}

Result<std::vector<RegionFault>> compile_regions(std::vector<CompiledRegion>& regions, Pipeline& pipeline,
                                                 bool moves_weights) {
  std::vector<Result<void>> outcomes(regions.size(), Result<void>());
  std::vector<std::string> refusals(regions.size());
  parallel_for(regions.size(), 1, [&](size_t first, size_t last) {
    for (size_t i = first; i < last; ++i)
      outcomes[i] =
          compile_region(regions[i], pipeline, moves_weights, pipeline.partition.regions[i]->name, refusals[i]);
  });
  pipeline.priced.clear();  // what ships has its copy, and the others take as much memory
  for (Result<void>& outcome : outcomes) TRY(std::move(outcome));
  std::vector<RegionFault> faults;
  for (size_t i = 0; i < refusals.size(); ++i)
    if (!refusals[i].empty()) faults.push_back({i, refusals[i], {}});
  return faults;
}

std::vector<Region> delegates_of(const std::vector<CompiledRegion>& regions, const Pipeline& pipeline) {
  const NpuTarget& target = pipeline.target;
  std::vector<Region> delegates;
  for (size_t i = 0; i < regions.size(); ++i) {
    const CompiledRegion& region = regions[i];
    delegates.push_back(
        {region.blob, npu_compile_specs(target.name, system_config_name(target, pipeline.options.npu),
                                        memory_mode_name(target, pipeline.options.npu), target.facts().tosa_profile)});
    CompileSpecs& specs = delegates.back().compile_specs;
    if (region.program.estimates)
      specs.emplace_back(kEstimatesKey, estimates_text(*region.program.estimates, kSwoopVersion));
    if (pipeline.options.strip) continue;
    std::string layers = pack_layers(make_layer_map(*pipeline.partition.regions[i], region.tosa, region.program));
    if (!layers.empty()) specs.emplace_back(kLayersKey, std::move(layers));
  }
  return delegates;
}

std::string tosa_text(const std::vector<CompiledRegion>& regions, const Pipeline& pipeline) {
  std::string text;
  for (size_t i = 0; i < regions.size(); ++i)
    text += fmt::format("# {}\n{}", pipeline.partition.regions[i]->name, tosa::text(regions[i].tosa));
  return text;
}

}  // namespace swoop
