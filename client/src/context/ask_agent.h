#pragma once

#include <chrono>
#include <thread>
#include <utility>

#include "client/src/base/time_left.h"
#include "client/src/context/connection.h"
#include "meshbus/address.h"
#include "meshbus/result.h"

namespace meshbus {

/// A broker or an agent that is replaced is there again after some 100 ms.
inline constexpr std::chrono::milliseconds kAskAgentAgain{50};
inline constexpr int kMostQuestionsToAgent = 10;

/// Whether another question may be answered: our broker thought of an earlier life of that host, or
/// a broker or agent is being replaced.
inline bool is_passing(ErrorCode code) {
  return code == ErrorCode::link_lost || code == ErrorCode::fate_unknown ||
         code == ErrorCode::no_such_proc;
}

/// The answer of a host to a question that is harmless to repeat; `first`: the answer to the first
/// one. It is asked again while that may help. Waits.
template <typename Question>
Result<ControlMessage> await_agent(Connection& connection, const HostAddr& host,
                                   const Question& question, Connection::Answer first,
                                   std::chrono::steady_clock::time_point end) {
  auto answer = first.get();
  for (int asked = 1; !answer && is_passing(answer.error().code()) &&
                      asked < kMostQuestionsToAgent && left_until(end) > kAskAgentAgain;
       ++asked) {
    std::this_thread::sleep_for(kAskAgentAgain);
    answer = connection.ask(Destination::to_agent(host), question, left_until(end)).get();
  }
  return answer;
}

}  // namespace meshbus
