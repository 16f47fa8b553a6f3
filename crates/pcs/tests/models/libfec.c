/* SPDX-License-Identifier: Apache-2.0
 * Judges codewords by libfec: records of 255 octets as sent and 255 as spoiled on standard input;
 * prints a complaint per wrong one, and how many it judged. */
#include <fec.h>
#include <stdio.h>
#include <string.h>

int main(void) {
    unsigned char record[510], parity[32];
    void *rs = init_rs_char(8, 0x11d, 0, 1, 32, 0);
    int count = 0;
    for (; fread(record, 1, sizeof record, stdin) == sizeof record; count++) {
        encode_rs_char(rs, record, parity);
        if (memcmp(parity, record + 223, 32) != 0)
            printf("libfec encodes record %d otherwise\n", count);
        if (decode_rs_char(rs, record + 255, NULL, 0) < 0 ||
            memcmp(record, record + 255, 255) != 0)
            printf("libfec decodes record %d otherwise\n", count);
    }
    printf("judged %d\n", count);
    free_rs_char(rs);
    return 0;
}
