// --min-sqnr: raises values from int8 to int16, the best measured gain per cost first, until every output is good
// enough. The gain of a value is measured alone, on one sample; how many of them it takes is found by halving.
#pragma once

#include "quantize/types.h"

namespace swoop {

// `prepared` is the float graph that was measured; what the request raises has int16 in any case. Fills what the report
// says of --min-sqnr; gives the names to raise, with those.
Result<std::set<std::string>> search_precision(const Graph& prepared, const TypeRequest& request,
                                               const Samples& samples, QuantizeReport& report);

// Multiply-accumulates and elements moved; twice as many where 16 bits are read.
Cost estimate_cost(const Graph& graph);

}  // namespace swoop
