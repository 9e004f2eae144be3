#pragma once

#include <unistd.h>

#include "client/python/bind/errors.h"

namespace meshbus::python {

/// Remembers the process that made an object whose threads a child of fork() does not have.
class ProcessCheck {
 public:
  bool is_here() const { return ::getpid() == made_by_; }
  /// Raises Refused in a child: what it waits for would never come. Needs the GIL.
  void operator()() const {
    if (!is_here())
      raise(Error(ErrorCode::refused,
                  "this belongs to the parent process: a child of fork() cannot wait for it. Make "
                  "hosts and meshes of its own here, or start programs by subprocess instead"));
  }

 private:
  pid_t made_by_ = ::getpid();
};

}  // namespace meshbus::python
