#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <utility>

#include "client/python/bind/bodies.h"
#include "client/python/bind/errors.h"
#include "client/python/bind/pending.h"

namespace meshbus::python {

/// Threads that wait in blocking calls of the library in place of Python's. They block every
/// signal, so that Python's main thread gets them all, and never take the GIL.
class HelperThreads {
 public:
  /// Those of this process: a child of fork() has its own.
  static HelperThreads& ours();

  /// Runs a job, on a thread that is idle or on a new one; when all kMost are busy, later.
  void run(std::function<void()> job);

 private:
  static constexpr std::size_t kMost = 256;
  void work();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> jobs_;
  std::size_t idle_ = 0;
  std::size_t threads_ = 0;
};

/// Runs `work`, which takes a std::stop_token and returns a Result, on a helper thread. `convert`
/// makes a Python object of its value, later and with the GIL. Neither may hold Python objects.
template <typename Work, typename Convert>
std::shared_ptr<Pending> ahead_until(Work work, Convert convert) {
  auto pending = std::make_shared<Pending>();
  HelperThreads::ours().run([pending, work = std::move(work),
                             convert = std::move(convert)]() mutable {
    auto result = std::make_shared<decltype(work(std::stop_token()))>(work(pending->stop_token()));
    pending->fill([result, convert]() -> py::object {
      if (!*result) raise(result->error());
      return convert(*std::move(*result));
    });
  });
  return pending;
}

/// The same for work that cannot be given up.
template <typename Work, typename Convert>
std::shared_ptr<Pending> ahead(Work work, Convert convert) {
  return ahead_until([work = std::move(work)](const std::stop_token&) { return work(); },
                     std::move(convert));
}

/// The same for work without a value.
template <typename Work>
std::shared_ptr<Pending> ahead(Work work) {
  auto pending = std::make_shared<Pending>();
  HelperThreads::ours().run([pending, work = std::move(work)] {
    auto result = std::make_shared<Result<void>>(work());
    pending->fill([result]() -> py::object {
      if (!*result) raise(result->error());
      return py::none();
    });
  });
  return pending;
}

/// Sends a body by `send(body)`: small ones here, which never waits; nothing comes back then.
/// Receivers may take long over a large one, which therefore has a thread.
template <typename Send>
std::optional<std::shared_ptr<Pending>> sent(py::handle parts, Send send) {
  constexpr std::size_t kSmall = 256 * 1024;
  constexpr std::size_t kShared = 1024 * 1024;  // larger ones go as shared memory
  const HeldParts held(parts);
  const auto body = held.parts();
  if (body.size() > kSmall)
    return ahead(
        [body = without_gil([&] { return body.hold(/*is_sealed=*/body.size() > kShared); }),
         send = std::move(send)] { return send(body); });
  must(without_gil([&] { return send(body); }));
  return std::nullopt;
}

}  // namespace meshbus::python
