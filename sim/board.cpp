// Runs the top of a board and prints when its UART's wire and its LEDs change, until the UART has been quiet.
// Arguments: most clock cycles, quiet cycles that end a line, lines, and when the button is pressed and let go.
#include <cinttypes>
#include <cstdio>
#include <cstdlib>

#include "Vtop.h"
#include "verilated.h"

int main(int argc, char** argv) {
    if (argc < 6) return 2;
    const auto number = [&](int index) { return std::strtoull(argv[index], nullptr, 10); };
    const uint64_t most = number(1), quiet = number(2), lines = number(3), press = number(4), release = number(5);
    VerilatedContext context;
    context.commandArgs(argc, argv);
    Vtop top{&context};
    unsigned tx = 1, led = 0x100;  // a wire that is idle, and no pattern of the LEDs
    uint64_t changed = 0, cycle = 0, sent = 0;
    bool sending = false;
    for (; cycle < most && sent < lines; cycle++) {
        top.button = cycle >= press && cycle < release;
        top.clk = 0;
        top.eval();
        top.clk = 1;
        top.eval();
        if (top.tx != tx) {
            tx = top.tx;
            changed = cycle;
            sending = true;
            std::printf("%" PRIu64 " tx %u\n", cycle, tx);
        }
        if (top.led != led) {
            led = top.led;
            std::printf("%" PRIu64 " led %u\n", cycle, led);
        }
        if (sending && cycle - changed == quiet) {
            sending = false;
            sent++;
        }
    }
    std::printf("%" PRIu64 " end 0\n", cycle);
    top.final();
    return 0;
}
