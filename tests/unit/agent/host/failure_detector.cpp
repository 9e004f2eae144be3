#include "agent/host/liveness/failure_detector.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "wire/ranks_generated.h"

/// In a namespace of their own: what others call alike is compiled with them.
namespace meshbus::test::failure_detector {

using host::FailureDetector;
using wire::Trouble;
using namespace std::chrono_literals;

namespace {

/// What happens to one that gives a sign every 5 s and is waited for for 10 s, in seconds from the
/// start.
struct Step {
  enum What { sign, clear, look, deaf } what;
  double at;
  Trouble then;
};

struct Row {
  const char* promise;
  std::vector<Step> steps;
};

const FailureDetector::Time kStart{100s};

FailureDetector::Time at(double seconds) {
  return kStart + std::chrono::duration_cast<FailureDetector::Duration>(
                      std::chrono::duration<double>(seconds));
}

const std::vector<Row> kRows = {
    {"signs in time are well",
     {{Step::sign, 5, Trouble::none},
      {Step::sign, 12, Trouble::none},
      {Step::look, 15, Trouble::none}}},
    {"silence alone blames nobody",
     {{Step::look, 60, Trouble::none}, {Step::sign, 61, Trouble::none}}},
    {"a way that was clear before it was overdue proves nothing",
     {{Step::clear, 7.4, Trouble::none},
      {Step::look, 12, Trouble::none},
      {Step::sign, 13, Trouble::none}}},
    {"late, and the way was clear: slow",
     {{Step::clear, 8, Trouble::none}, {Step::sign, 9, Trouble::slow}}},
    {"nothing for as long as it would wait itself, and the way was clear: frozen",
     {{Step::clear, 10, Trouble::none}, {Step::look, 10, Trouble::frozen}}},
    {"a little less is not frozen",
     {{Step::clear, 9.9, Trouble::none}, {Step::look, 30, Trouble::none}}},
    {"a frozen proc that answers is slow, and after two signs in time well",
     {{Step::clear, 10, Trouble::none},
      {Step::look, 10, Trouble::frozen},
      {Step::look, 500, Trouble::frozen},
      {Step::sign, 501, Trouble::slow},
      {Step::sign, 506, Trouble::slow},
      {Step::sign, 511, Trouble::none}}},
    {"one late sign among them, and it goes on being slow",
     {{Step::clear, 8, Trouble::none},
      {Step::sign, 9, Trouble::slow},
      {Step::sign, 14, Trouble::slow},
      {Step::clear, 22, Trouble::slow},
      {Step::sign, 23, Trouble::slow},
      {Step::sign, 28, Trouble::slow},
      {Step::sign, 33, Trouble::none}}},
    {"slow may become frozen",
     {{Step::clear, 8, Trouble::none},
      {Step::sign, 9, Trouble::slow},
      {Step::clear, 19, Trouble::slow},
      {Step::look, 20, Trouble::frozen}}},
    {"time in which nobody could hear does not count",
     {{Step::deaf, 9, Trouble::none},
      {Step::clear, 12, Trouble::none},
      {Step::look, 12, Trouble::none},
      {Step::sign, 13, Trouble::none}}},
    {"after that all limits count anew",
     {{Step::deaf, 9, Trouble::none},
      {Step::clear, 19, Trouble::none},
      {Step::look, 19, Trouble::frozen}}},
    {"being deaf makes nobody well",
     {{Step::clear, 10, Trouble::none},
      {Step::look, 10, Trouble::frozen},
      {Step::deaf, 11, Trouble::frozen}}},
};

}  // namespace

TEST_CASE(
    "failure_detector: well, slow and frozen are told apart, and what comes and goes does not "
    "flap") {
  for (const auto& row : kRows) {
    CAPTURE(row.promise);
    FailureDetector detector(FailureDetector::limits_of(5s, 10s), kStart);
    for (const auto& step : row.steps) {
      CAPTURE(step.at);
      switch (step.what) {
        case Step::sign: detector.on_heartbeat(at(step.at)); break;
        case Step::clear: detector.on_clear(at(step.at)); break;
        case Step::look: detector.on_check(at(step.at)); break;
        case Step::deaf: detector.on_deaf(at(step.at)); break;
      }
      CHECK(detector.trouble() == step.then);
    }
  }
}

TEST_CASE(
    "failure_detector: whether the way is clear is asked when it matters, and once for each "
    "limit") {
  FailureDetector detector(FailureDetector::limits_of(5s, 10s), kStart);
  CHECK_FALSE(detector.is_doubtful(at(7.4)));
  CHECK(detector.is_doubtful(at(7.5)));
  detector.on_clear(at(7.5));
  CHECK_FALSE(detector.is_doubtful(at(9.9)));
  CHECK(detector.is_doubtful(at(10)));
  detector.on_clear(at(10));
  detector.on_check(at(10.1));
  CHECK_FALSE(detector.is_doubtful(at(11)));
  CHECK(detector.silence() == 10'100ms);
  detector.on_heartbeat(at(30));
  CHECK(detector.silence() == 30s);
}

TEST_CASE(
    "failure_detector: half an interval late is late; who waits shorter than two intervals for its "
    "agent is waited for longer") {
  CHECK(FailureDetector::limits_of(2s, 10s).late == 3s);
  CHECK(FailureDetector::limits_of(2s, 10s).frozen == 10s);
  CHECK(FailureDetector::limits_of(5s, 6s).frozen == 10s);
}

}  // namespace meshbus::test::failure_detector
