#include "support/codes.h"

namespace swoop {

namespace {

constexpr CodeInfo kCodes[] = {
    // in the order of Code
    {"uncalibrated", "Ranges were measured on random data, so the program's results mean nothing.",
     "Give real inputs with --calibrate."},
    {"few-samples", "The samples do not show how far other inputs reach: on those, results may be clipped.",
     "Give more samples to --calibrate, as different as those that the device will meet."},
    {"constant-input", "An input has the same value in every sample, so that its range is that one value.",
     "Give samples in which it changes, or make it a constant of the model."},
    {"dropout", "The model was exported in training mode. Its dropout was left out, as eval() does.",
     "Call model.eval() before torch.export.export."},
    {"dynamic-range",
     "The model was quantized so that it chooses scales while it runs. The NPU has none of that kind, so that the "
     "samples choose them.",
     "Nothing, or quantize the model statically."},
    {"raised",
     "Layers were moved from int8 to int16, because --min-sqnr asks for it or because an output had less than 20 dB. "
     "The text says which, and what they cost.",
     "Nothing, or name the layers in --quantize-config to keep the choice. --precision int8 moves none."},
    {"repaired",
     "Arm's compiler wrote a program that could read or overwrite data too early. swoop put it in order, which takes a "
     "little time at those places.",
     "Nothing: the repaired program was checked. docs/regor-defects.md lists the causes."},
    {"fetched",
     "With weights that were brought into SRAM before their turn the program was wrong, so that each operation fetches "
     "its own from flash.",
     "Nothing: the program was checked, it is slower than it could be. Report the model: this is a defect of swoop."},
    {"cut", "Arm's compiler wrote a wrong program for the whole region, so that it was made of two.",
     "Report the model: this is a defect of Arm's compiler that swoop does not know yet."},
    {"inexact", "A layer of the file is off by less than 1 %, but by more than its integer form declares.",
     "Look at the SQNR of the outputs; if it will do, so will the layer. Report the model: a form or its bound is "
     "wrong."},
    {"finer",
     "A part of an output, or a channel of one, would have had one value where the float model's varies. The build was "
     "repeated with finer types; the text says with which, and what they cost.",
     "Nothing, or accept the flat part with --allow-flat."},
    {"noisy", "An output, or a part of one, is mostly noise: its errors are at least a third of its numbers.",
     "Ask for more with --min-sqnr or --precision int16. If that does not help, the model itself turns small "
     "differences "
     "of its inputs into large ones."},
    {"wide-port",
     "--io asks for codes of 8 bits, and an input or output has more: 8 would lose a part of it, or --quantize-config "
     "names it.",
     "Read the type from the summary, or let the host convert that side: --io int8,float."},
    {"branch", "A branch of torch.cond has an operator that the NPU does not run, so the host chooses the branch.",
     "Keep both branches to operators of `swoop ops`."},
    {"differs",
     "Arm's compiler wrote a program for this operator that computes something else, so the host computes it.",
     "Report the model: this is a defect of Arm's compiler that swoop does not know yet."},
    {"counting", "The operator computes indices or counts which the host makes and reads: moving them would cost more.",
     "Nothing."},
};
static_assert(std::size(kCodes) == static_cast<size_t>(Code::Counting) + 1);

}  // namespace

std::span<const CodeInfo> codes() { return kCodes; }

std::string_view name_of(Code code) { return kCodes[static_cast<size_t>(code)].code; }

std::string with_code(std::string text, Code code) {
  text += " [";
  text += name_of(code);
  text += ']';
  return text;
}

}  // namespace swoop
