#pragma once

namespace meshbus {

/// Asks the kernel for shorter slices of a CPU than its 1 to 3 ms, for the calling thread and for
/// those it starts from now on. Who asks for less at a time gets it earlier: a question is answered
/// while a hundred procs start or end on the same CPU. Nobody's share changes. Linux does so
/// since 6.12, and for anybody; an older kernel takes no notice. Threads with another policy than
/// the usual one stay as they are.
void ask_for_short_slices();

}  // namespace meshbus
