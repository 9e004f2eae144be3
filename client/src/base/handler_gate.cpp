#include "client/src/base/handler_gate.h"

#include <cxxabi.h>

#include <exception>
#include <string>

#include "common/base/log.h"

namespace meshbus {
namespace {

void report(const std::string& what) {
  log::error("a handler of this launcher has thrown " + what + "; the launcher goes on without it");
}

}  // namespace

void HandlerGate::pass(const std::function<void()>& handler) {
  const std::lock_guard lock(mutex_);
  if (is_shut_) return;
  try {
    handler();
  } catch (const std::exception& error) {
    report(std::string("an exception: ") + error.what());
  } catch (const abi::__forced_unwind&) {
    throw;  // the thread is being cancelled
  } catch (...) {
    report("something that is not a std::exception");
  }
}

void HandlerGate::shut() {
  const std::lock_guard lock(mutex_);
  is_shut_ = true;
}

}  // namespace meshbus
