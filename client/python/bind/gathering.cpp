#include "client/python/bind/gathering.h"

#include <utility>

#include "client/python/bind/bodies.h"

namespace meshbus::python {

Gathering::Gathering(std::uint64_t ranks)
    : answers_(ranks, fail(ErrorCode::internal, "no answer")), left_(ranks) {
  if (ranks == 0) pending_->fill([] { return py::list(); });
}

void Gathering::put(std::uint64_t ordinal, Result<std::string> answer) {
  {
    std::lock_guard lock(mutex_);
    answers_[ordinal] = std::move(answer);
    if (--left_ != 0) return;
  }
  auto all = std::make_shared<std::vector<Result<std::string>>>(std::move(answers_));
  pending_->fill([all] { return answers_of(std::move(*all)); });
}

}  // namespace meshbus::python
