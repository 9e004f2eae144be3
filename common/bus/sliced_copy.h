#pragma once

#include <functional>
#include <string>

#include "common/loop/reactor.h"
#include "meshbus/result.h"
#include "meshbus/shared_body.h"

namespace meshbus {

/// Copies a large body into a string of its own, a slice in each turn of the loop, so that other
/// messages do not wait for all of it. `done` is called later, unless the reactor ends before.
/// Errors: queue_full (no memory). Reactor's thread.
void copy_in_slices(Reactor& reactor, SharedBody body,
                    std::function<void(Result<std::string>)> done);

}  // namespace meshbus
