/* A plugin of QEMU's user-mode emulators: before each write to standard error, it prints how many
 * instructions the program has executed. The declarations are those of QEMU's plugin interface, version 1. */
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

typedef uint64_t qemu_plugin_id_t;
struct qemu_plugin_tb;

enum { INLINE_ADD_U64 = 0 };

extern size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
extern void qemu_plugin_register_vcpu_tb_trans_cb(
    qemu_plugin_id_t id, void (*cb)(qemu_plugin_id_t id, struct qemu_plugin_tb *tb));
extern void qemu_plugin_register_vcpu_tb_exec_inline(
    struct qemu_plugin_tb *tb, int op, void *ptr, uint64_t imm);
extern void qemu_plugin_register_vcpu_syscall_cb(
    qemu_plugin_id_t id,
    void (*cb)(qemu_plugin_id_t id, unsigned int vcpu, int64_t num, uint64_t a1, uint64_t a2, uint64_t a3,
               uint64_t a4, uint64_t a5, uint64_t a6, uint64_t a7, uint64_t a8));

__attribute__((visibility("default"))) int qemu_plugin_version = 1;

static uint64_t executed;
static int64_t write_number;

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
    (void)id;
    qemu_plugin_register_vcpu_tb_exec_inline(tb, INLINE_ADD_U64, &executed, qemu_plugin_tb_n_insns(tb));
}

static void called(qemu_plugin_id_t id, unsigned int vcpu, int64_t num, uint64_t a1, uint64_t a2, uint64_t a3,
                   uint64_t a4, uint64_t a5, uint64_t a6, uint64_t a7, uint64_t a8)
{
    (void)id, (void)vcpu, (void)a2, (void)a3, (void)a4, (void)a5, (void)a6, (void)a7, (void)a8;
    if (num == write_number && a1 == 2)
        dprintf(2, "%llu ", (unsigned long long)executed);
}

struct qemu_info_t {
    const char *target_name;
};

__attribute__((visibility("default"))) int qemu_plugin_install(
    qemu_plugin_id_t id, const struct qemu_info_t *info, int argc, char **argv)
{
    (void)argc, (void)argv;
    write_number = info->target_name[0] == 'x' ? 1 : 64;
    qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
    qemu_plugin_register_vcpu_syscall_cb(id, called);
    return 0;
}
