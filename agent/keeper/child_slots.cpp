#include "agent/keeper/child_slots.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

namespace meshbus::keeper {

Result<ChildSlots> ChildSlots::make(int null) {
  ChildSlots made;
  made.null_ = null;
  for (UniqueFd& slot : made.slots_) {
    slot = UniqueFd(::fcntl(null, F_DUPFD_CLOEXEC, 3));
    if (!slot)
      return fail(ErrorCode::io_error,
                  std::string("descriptors for children: ") + std::strerror(errno));
    made.first_foreign_ = std::max(made.first_foreign_, static_cast<unsigned>(slot.get()) + 1);
  }
  return made;
}

int ChildSlots::lend(std::size_t slot, UniqueFd fd) {
  lent_[slot] = true;
  return ::dup3(fd.get(), slots_[slot].get(), O_CLOEXEC);
}

void ChildSlots::take_back() {
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (lent_[i]) ::dup3(null_, slots_[i].get(), O_CLOEXEC);
    lent_[i] = false;
  }
}

}  // namespace meshbus::keeper
