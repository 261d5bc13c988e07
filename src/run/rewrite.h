// A command stream written again, command by command, with others put in or left out.
#pragma once

#include <map>

#include "run/registers.h"

namespace swoop::ethos {

class StreamWriter {
 public:
  // `payload` is the driver's, `stream` the part of it that holds the commands. Both must outlive this.
  StreamWriter(Bytes payload, Bytes stream) : header_(payload.first(payload.size() - stream.size())), stream_(stream) {}

  // A command of our own: of one word, or of two.
  void add(Cmd id, uint16_t parameter, uint32_t payload = 0);
  void add_address(Cmd id, int64_t address) {
    add(id, static_cast<uint16_t>(address >> 32), static_cast<uint32_t>(address));
  }

  // What is added from here on belongs to this command: a branch to it meets it too.
  void begin(const NpuCommand& command) { begins_[command.position] = size(); }
  void copy(const NpuCommand& command);

  // After the last command: branches go to where their targets stand now.
  void finish(const std::vector<NpuCommand>& commands);

  uint32_t moved(uint32_t position) const;  // where a command stands now
  Buffer payload() const;                   // the driver's

 private:
  uint32_t size() const { return static_cast<uint32_t>(words_.size() / 4); }

  Bytes header_, stream_;
  Buffer words_;
  std::map<uint32_t, uint32_t> begins_, stands_;  // old word of a command: its new word, additions included or not
};

}  // namespace swoop::ethos
