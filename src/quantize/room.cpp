#include "quantize/room.h"

#include <algorithm>
#include <cmath>

#include "accuracy/accuracy.h"
#include "quantize/complete.h"
#include "quantize/search.h"
#include "quantize/trials.h"
#include "support/parallel.h"

namespace swoop {

namespace {

constexpr double kUsual = 1;

// A sample that was left out, in float, and what the others show.
struct Fold {
  const Sample& sample;
  const Measured& others;
  const std::vector<Tensor>& exact;
};

class RoomJudge {
 public:
  RoomJudge(const Graph& prepared, const TypeRequest& request) : prepared_(prepared), request_(request) {}

  // Of each float output, with the ranges of `measured`, in dB.
  Result<std::vector<double>> figures(const Fold& fold, const Measured& measured, double room) const {
    const Graph graph = typed(prepared_, {.options = request_.options,
                                          .measured = measured,
                                          .raised = request_.raised,
                                          .room = room,
                                          .weight_rate = 0,
                                          .known = request_.known});
    TRY_ASSIGN(std::vector<Tensor> outputs, execute(graph, fold.sample, {request_.options.opaque}));
    std::vector<double> db;
    for (size_t i = 0; i < outputs.size(); ++i)
      if (fold.exact[i].dtype == DType::F32)
        db.push_back(sqnr_db(std::span(fold.exact).subspan(i, 1), std::span(outputs).subspan(i, 1)));
    return db;
  }

  // With other ranges or other room, found side by side.
  struct Question {
    const Measured* measured;
    double room;
  };
  Result<std::vector<std::vector<double>>> figures(const Fold& fold, const std::vector<Question>& questions) const {
    std::vector<Result<std::vector<double>>> answers(questions.size(), std::vector<double>());
    parallel_for(questions.size(), 1, [&](size_t first, size_t last) {
      for (size_t i = first; i < last; ++i) answers[i] = figures(fold, *questions[i].measured, questions[i].room);
    });
    std::vector<std::vector<double>> all;
    for (Result<std::vector<double>>& answer : answers) {
      TRY_ASSIGN(all.emplace_back(), std::move(answer));
    }
    return all;
  }

  Result<double> unseen_db(const Fold& fold, double room) const {
    TRY_ASSIGN(std::vector<double> db, figures(fold, fold.others, room));
    return mean(db);
  }

  static double mean(const std::vector<double>& db) {
    Moments all;
    for (double x : db) all.add(x);
    return all.mean();
  }

 private:
  const Graph& prepared_;
  const TypeRequest& request_;
};

struct Judgement {
  std::optional<LeftOut> worst;  // the output that loses most
  double unseen_db = 0;          // of all outputs, the mean
};

Result<Judgement> judgement(const RoomJudge& judge, const Fold& fold, const Measured& all, double room) {
  TRY_ASSIGN(const std::vector<std::vector<double>> figures, judge.figures(fold, {{&all, room}, {&fold.others, room}}));
  const std::vector<double>&seen = figures[0], &unseen = figures[1];
  Judgement result{std::nullopt, RoomJudge::mean(unseen)};
  for (size_t i = 0; i < seen.size(); ++i)
    if (LeftOut output{seen[i], unseen[i]}; !result.worst || output.loss_db() > result.worst->loss_db())
      result.worst = output;
  return result;
}

// Whether less room than usual is better on samples that are left out one by one. Four samples say little: over 32
// networks, calibrated on four and judged on 32 others, the answer was right wherever they agree with one another, and
// wrong as often as right elsewhere. Where they agree, it gains 0 to 0.8 dB (small text transformers, whose values have
// ends that most samples reach).
Result<bool> less_is_better(const RoomJudge& judge, const Graph& prepared, const Samples& samples, const Fold& last,
                            double last_db, double less, const TypeRequest& request) {
  constexpr size_t kFolds = 4;
  constexpr double kGain = 0.1, kAgree = 1.25, kFarOff = 2;  // dB
  constexpr double kMostWork = 3e7;  // multiply-accumulates: more would take longer than the ranges did
  if (samples.inputs.size() < kFolds || estimate_cost(prepared).value > kMostWork) return false;
  Moments gains;
  TRY_ASSIGN(double gain, judge.unseen_db(last, less));
  gain -= last_db;
  gains.add(gain);
  if (std::fabs(gain) > kFarOff) return false;
  const Result<std::vector<Measured>> others =
      calibrate_without_each(prepared, samples, kFolds - 1, request.options.opaque);
  if (!others) return false;  // the others alone say too little
  for (size_t i = 0; i + 1 < kFolds; ++i) {
    if (std::fabs(gain) > kFarOff) return false;
    const Fold fold{samples.inputs[i], (*others)[i], request.measured.first_outputs[i]};
    TRY_ASSIGN(const std::vector<std::vector<double>> db,
               judge.figures(fold, {{&fold.others, less}, {&fold.others, kUsual}}));
    gain = RoomJudge::mean(db[0]) - RoomJudge::mean(db[1]);
    gains.add(gain);
  }
  return gains.mean() > kGain && gains.deviation() < kAgree;
}

}  // namespace

bool can_leave_out(const Graph& graph, const Samples& samples) {
  return !samples.random && samples.inputs.size() >= 2 && samples.inputs.size() < kEnoughSamples && !has_state(graph);
}

Result<std::optional<LeftOut>> choose_room(const Graph& prepared, const Samples& samples, const Measured& others,
                                           TypeRequest& request) {
  // dB. One sample errs: with a gain of 0.5, two of three networks that got more room for it were worse with 32 others.
  constexpr double kLoses = 1, kGains = 1.5;
  constexpr double kLess = 0.25;
  const StorageReuse reuse;
  const RoomJudge judge(prepared, request);
  const Fold last{samples.inputs.back(), others, request.measured.last_outputs};
  TRY_ASSIGN(Judgement best, judgement(judge, last, request.measured, kUsual));
  if (!best.worst || request.options.method != Method::Mse) return best.worst;
  for (double room : {2.0, 4.0}) {
    if (best.worst->loss_db() <= kLoses) break;
    TRY_ASSIGN(Judgement wider, judgement(judge, last, request.measured, room));
    if (wider.unseen_db < best.unseen_db + kGains) continue;
    request.room = room;
    best = wider;
  }
  if (request.room != kUsual || request.options.precision != Precision::Int8) return best.worst;
  TRY_ASSIGN(const bool less, less_is_better(judge, prepared, samples, last, best.unseen_db, kLess, request));
  if (less) {
    request.room = kLess;
    TRY_ASSIGN(best, judgement(judge, last, request.measured, kLess));
  }
  return best.worst;
}

}  // namespace swoop
