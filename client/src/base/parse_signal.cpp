#include "client/src/base/parse_signal.h"

#include <cctype>
#include <csignal>
#include <cstring>

namespace meshbus {

Result<int> parse_signal(const std::string& text) {
  std::string word = text;
  for (auto& c : word) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  if (word.starts_with("SIG")) word.erase(0, 3);
  for (int signal = 1; signal < NSIG; ++signal) {
    const char* const name = ::sigabbrev_np(signal);
    if (word == std::to_string(signal) || (name != nullptr && word == name)) return signal;
  }
  return fail(ErrorCode::parse_error,
              "'" + text + "' is no signal: use a name like USR1, HUP or STOP, or a number");
}

}  // namespace meshbus
