#include "run/rewrite.h"

#include <cstring>

namespace swoop::ethos {

namespace {

void store(Buffer& bytes, size_t at, uint32_t word) { std::memcpy(bytes.data() + at, &word, sizeof word); }

}  // namespace

void StreamWriter::add(Cmd id, uint16_t parameter, uint32_t payload) {
  const CommandInfo& info = command_info(id);
  constexpr uint32_t kTwoWords = 1 << 14;
  append(words_, uint32_t{parameter} << 16 | (info.wide ? kTwoWords : 0) | info.code);
  if (info.wide) append(words_, payload);
}

void StreamWriter::copy(const NpuCommand& command) {
  stands_[command.position] = size();
  append(words_, load<uint32_t>(stream_.data() + 4 * size_t{command.position}));
  if (command_info(static_cast<Cmd>(command.id)).wide) append(words_, command.payload);
}

void StreamWriter::finish(const std::vector<NpuCommand>& commands) {
  for (const NpuCommand& command : commands)
    if (static_cast<Cmd>(command.id) == Cmd::OP_BRANCH)  // it names a byte of the stream
      if (auto target = begins_.find(command.payload / 4); target != begins_.end())
        store(words_, 4 * (size_t{stands_.at(command.position)} + 1), 4 * target->second);
}

uint32_t StreamWriter::moved(uint32_t position) const {
  const auto found = stands_.find(position);
  return found != stands_.end() ? found->second : position;
}

Buffer StreamWriter::payload() const {
  Buffer bytes(header_.begin(), header_.end());
  // The header's last word holds the stream's length in words: low 16 bits above the high 8 bits above the action.
  const uint32_t action = load<uint32_t>(bytes.data() + bytes.size() - 4) & 0xff;
  store(bytes, bytes.size() - 4, size() << 16 | (size() >> 16 & 0xff) << 8 | action);
  append(bytes, Bytes(words_));
  return bytes;
}

}  // namespace swoop::ethos
