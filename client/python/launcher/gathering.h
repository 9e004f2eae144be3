#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "client/python/bind/bodies.h"
#include "client/python/bind/gathering.h"
#include "client/python/bind/inbox.h"
#include "client/python/bind/pending.h"
#include "meshbus/context.h"

namespace meshbus::python {

/// Starts a call to many ranks: start(options, handler). What comes of it, as Gathering has it.
template <typename Start>
std::shared_ptr<Pending> gathered(std::uint64_t ranks, std::chrono::milliseconds deadline,
                                  Start start) {
  auto gathering = std::make_shared<Gathering>(ranks);
  const auto& pending = gathering->pending();
  py::gil_scoped_release release;
  start(AsyncOptions{.deadline = deadline, .stop = pending->stop_token(), .is_direct = true},
        RankAnswerHandler([gathering](std::uint64_t ordinal, Result<std::string> answer) {
          gathering->put(ordinal, std::move(answer));
        }));
  return pending;
}

/// Starts a call to many ranks; each answer goes into the inbox as it comes: (ordinal, body or
/// exception). What is returned cancels it.
template <typename Start>
std::shared_ptr<Pending> streamed(const std::shared_ptr<Inbox>& inbox,
                                  std::chrono::milliseconds deadline, Start start) {
  auto pending = std::make_shared<Pending>();
  py::gil_scoped_release release;
  start(AsyncOptions{.deadline = deadline, .stop = pending->stop_token(), .is_direct = true},
        RankAnswerHandler([inbox](std::uint64_t ordinal, Result<std::string> answer) {
          auto kept = std::make_shared<Result<std::string>>(std::move(answer));
          inbox->push(
              [ordinal, kept] { return py::make_tuple(ordinal, answer_of(std::move(*kept))); });
        }));
  return pending;
}

}  // namespace meshbus::python
