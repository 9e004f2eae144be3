#pragma once

#include "common/base/taken_signals.h"

namespace meshbus::cli {

/// The signals of a program that works beside ranks: INT, QUIT, TERM, HUP, WINCH.
class HandSignals : public TakenSignals {
 public:
  HandSignals();
};

}  // namespace meshbus::cli
