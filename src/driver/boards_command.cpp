// swoop boards: the table of --board.
#include <cstdio>
#include <nlohmann/json.hpp>

#include "driver/boards.h"
#include "driver/commands.h"
#include "support/json.h"

namespace swoop {

namespace {

std::string boards_text() {
  std::string text;
  for (const Board& board : boards()) {
    text += fmt::format("{}: {}\n", board.name, board.text);
    text += fmt::format("  NPU          {} ({})\n", board.target, board.target_source);
    for (const BoardMemory& memory : board.memories)
      text += fmt::format("  {:<12} {} KiB, {} ({})\n", memory_name(memory.kind), memory.bytes / 1024, memory.name,
                          memory.source);
    if (board.memories.empty()) text += "  memory       not known: no public source was found\n";
  }
  return text;
}

std::string boards_json() {
  Json json = {{"schema", 1}, {"boards", Json::array()}};
  for (const Board& board : boards()) {
    Json& one = json["boards"].emplace_back(Json{{"name", board.name},
                                                 {"text", board.text},
                                                 {"target", board.target},
                                                 {"target_source", board.target_source},
                                                 {"memories", Json::array()}});
    for (const BoardMemory& memory : board.memories)
      one["memories"].push_back({{"kind", memory_name(memory.kind)},
                                 {"name", memory.name},
                                 {"bytes", memory.bytes},
                                 {"source", memory.source}});
  }
  return to_line(json);
}

}  // namespace

Command boards_command(CLI::App& app) {
  auto json = std::make_shared<bool>(false);
  CLI::App* command = app.add_subcommand("boards", "List the boards of --board, with the source of each figure");
  command->add_flag("--json", *json, "print JSON");
  return {command, [json] {
            fmt::print("{}", *json ? boards_json() : boards_text());
            return 0;
          }};
}

}  // namespace swoop
