#include <algorithm>

#include "legalize/common.h"

namespace swoop {

namespace {

constexpr int64_t kMaxAxis = 65536;  // U55, U65: sizes are 16-bit fields

// transpose of many dims  ->  reshape, transpose of as few as say the same, reshape
// Dims of size 1 go, dims that travel together become one. U55 and U65 turn a plane in one op where [0,2,3,1] takes two, and refuse
// some transposes of long axes that are fine without the ones between them. U85 turns three axes at once and fuses a transpose into
// its neighbour, which a reshape would keep it from.
bool shrink_transpose(Rewriter& rw, Node& n) {
  if (!on_integers(rw.graph(), n)) return false;
  const Type in = rw.type(n.inputs[0]);
  const Type out = rw.type(n.outputs[0]);
  if (in.quant != out.quant || (in.quantized() && in.quant->per_channel()) || (is_u85(rw) && in.rank() <= 4)) return false;
  std::vector<size_t> place(in.shape.size(), 0);  // among the dims that are not 1
  size_t count = 0;
  for (size_t i = 0; i < in.shape.size(); ++i)
    if (in.shape[i] != 1) place[i] = count++;

  bool merges = target_of(rw).family != NpuFamily::U65;  // its planes in DRAM are read better in two steps (cond_experts: 93 against 127 kcycles)
  struct Group {
    size_t first;
    size_t last;
    int64_t size;
  };
  std::vector<Group> groups;  // in the order of the result
  for (int64_t axis : n.ints(Key::Perm)) {
    auto a = static_cast<size_t>(axis);
    if (in.shape[a] == 1) continue;
    bool follows = merges && !groups.empty() && groups.back().last + 1 == place[a] && groups.back().size * in.shape[a] <= kMaxAxis;
    if (follows)
      groups.back() = {groups.back().first, place[a], groups.back().size * in.shape[a]};
    else
      groups.push_back({place[a], place[a], in.shape[a]});
  }
  if (groups.size() < 2 || groups.size() == in.shape.size()) return false;
  std::vector<Group> before = groups;  // in the order of the operand
  std::sort(before.begin(), before.end(), [](const Group& a, const Group& b) { return a.first < b.first; });
  Shape shape;
  Ints perm;
  for (const Group& group : before) shape.push_back(group.size);
  for (const Group& group : groups)
    perm.push_back(std::find_if(before.begin(), before.end(), [&](const Group& b) { return b.first == group.first; }) - before.begin());
  rw.replace(n, reshape(rw, transpose(rw, reshape(rw, n.inputs[0], shape), perm), out.shape));
  return true;
}

}  // namespace

std::span<const Rule> finish_rules() {
  static const Rule kRules[] = {{"shrink-transpose", {Op::Transpose}, shrink_transpose}};
  return kRules;
}

}  // namespace swoop
