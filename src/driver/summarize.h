// What a compile came to, as the summary that the report room prints.
#pragma once

#include "driver/pipeline.h"
#include "driver/regions.h"
#include "emit/emit.h"
#include "report/report.h"

namespace swoop {

// Of a file with these regions, which `info` was read from. What was checked and how long it took comes later.
Summary summarize(const Graph& graph, const Pipeline& pipeline, const std::vector<CompiledRegion>& regions,
                  const ProgramInfo& info);

}  // namespace swoop
