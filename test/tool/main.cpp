#include "tool/commands.h"

int main(int argc, char** argv) {
  CLI::App app{"Reaches single rooms of swoop, for the Python tests.", "swoop_test_tool"};
  app.require_subcommand(1);
  swoop::test_tool::Commands commands(app);
  for (auto add : {swoop::test_tool::add_emit, swoop::test_tool::add_import, swoop::test_tool::add_npu,
                   swoop::test_tool::add_ops, swoop::test_tool::add_quantize, swoop::test_tool::add_runtime,
                   swoop::test_tool::add_stream, swoop::test_tool::add_tosa})
    add(commands);
  CLI11_PARSE(app, argc, argv);
  if (commands.result()) return 0;
  fmt::print(stderr, "{}\n", commands.result().error().message);
  return 1;
}
