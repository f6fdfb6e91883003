// Loaded into clang before it starts (LD_PRELOAD): its libraries, whose loading takes longer than compiling a kernel,
// are loaded once, and each compilation is a fork of the process that has them.
//
// A request on the standard input is a line: the words of the command, the file to read as input, and the file for what
// the compiler says, all separated by tabs. The answer is a line with the exit status.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef int (*main_function)(int, char**, char**);
static main_function real_main;

static int compile(char* line, char** environment) {
    char *words[512], *at = line;
    int count = 0;
    for (char* word; count < 511 && (word = strsep(&at, "\t"));) words[count++] = word;
    int input = open(words[count - 2], O_RDONLY), output = open(words[count - 1], O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (input < 0 || output < 0) return 127;
    dup2(input, 0);
    dup2(output, 1);
    dup2(output, 2);
    words[count - 2] = NULL;
    return real_main(count - 2, words, environment);
}

static int serve(int argc, char** argv, char** environment) {
    (void)argc;
    (void)argv;
    static char line[1 << 16];
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = 0;
        pid_t child = fork();
        if (!child) exit(compile(line, environment));
        int status = 0;
        waitpid(child, &status, 0);
        printf("%d\n", WIFEXITED(status) ? WEXITSTATUS(status) : 128);
        fflush(stdout);
    }
    return 0;
}

int __libc_start_main(main_function main, int argc, char** argv, void (*init)(void), void (*fini)(void), void (*last)(void), void* stack) {
    int (*next)(main_function, int, char**, void (*)(void), void (*)(void), void (*)(void), void*) = dlsym(RTLD_NEXT, "__libc_start_main");
    real_main = main;
    return next(serve, argc, argv, init, fini, last, stack);
}
