// Inside libswoop_run.so: what the delegate and the session that runs a program know of each other.
#pragma once

#include <string>

#include "run/runtime.h"

namespace swoop {

// The run that is under way in this thread; null when the host program (Python, for example) drives the runtime itself.
struct ActiveRun {
  RuntimeOptions options;
  int delegates_loaded = 0;    // so that a delegate learns its index
  uint32_t scratch_bytes = 0;  // of the largest region: what a device gives its temporary allocator
  std::vector<RegionTraffic> traffic;
  std::string failure;  // the delegate's own words: the runtime passes on a number only
};
ActiveRun*& active_run();

// Name and size of the runtime's element types; empty for those that a model cannot hold.
std::string_view type_name(int scalar_type);

}  // namespace swoop
