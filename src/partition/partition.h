// Cuts the graph into regions for the NPU and what stays on the host. Asks target/ about each node as it stands, never
// guesses; records a reason for each node that stays. Regions are as few as the host nodes between them allow.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ir/ir.h"
#include "target/target.h"

namespace swoop {

struct HostReason {
  std::string node;
  std::string op;
  std::string rule;
  std::string reason;
  std::string advice;
  Loc loc;
};

// What was found out about a node after it had been put into a region.
struct Verdict {
  bool host = false;   // it stays on the host; else a region begins with it
  std::string reason;  // a clause: "regor crashed with SIGSEGV ..."
};
using Verdicts = std::map<std::string, Verdict>;  // by the name of the node's first result

struct Partition {
  std::vector<std::unique_ptr<Graph>> regions;  // inputs and outputs in the order of the delegate's arguments
  std::vector<HostReason> host;
};

// Moves the NPU's nodes out of `graph` (bodies included) into regions; an opaque node with target kRegionTarget and
// attribute region=i stands for regions[i]. Host nodes on quantized values get explicit dequantize and quantize nodes
// around them. Region graphs share the constants' bytes with `graph`, which must outlive them.
Partition partition(Graph& graph, const NpuTarget& target, const Verdicts& verdicts = {});

}  // namespace swoop
