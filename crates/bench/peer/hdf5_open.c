/* Opens all datasets of a file with the C library: hdf5_open FILE shapes|attributes ROUNDS. The same as the job of the benchmark `hdf5`. */
#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int with_attributes;
static unsigned long long sum;

static herr_t attribute(hid_t object, const char *name, const H5A_info_t *info, void *data) {
    unsigned long long value = 0;
    hid_t id = H5Aopen(object, name, H5P_DEFAULT);
    (void)info;
    (void)data;
    if (id < 0 || H5Aread(id, H5T_NATIVE_ULLONG, &value) < 0)
        exit(1);
    H5Aclose(id);
    sum += value;
    return 0;
}

static herr_t visit(hid_t group, const char *name, const H5L_info_t *info, void *data) {
    hid_t id = H5Oopen(group, name, H5P_DEFAULT);
    (void)info;
    (void)data;
    if (id < 0)
        exit(1);
    if (H5Iget_type(id) == H5I_DATASET) {
        hid_t space = H5Dget_space(id);
        sum += (unsigned long long)H5Sget_simple_extent_npoints(space);
        H5Sclose(space);
        if (with_attributes && H5Aiterate2(id, H5_INDEX_NAME, H5_ITER_NATIVE, NULL, attribute, NULL) < 0)
            exit(1);
    }
    H5Oclose(id);
    return 0;
}

int main(int count, char **words) {
    if (count != 4)
        return 2;
    with_attributes = strcmp(words[2], "attributes") == 0;
    for (int round = 0; round < atoi(words[3]); round++) {
        struct timespec start, end;
        sum = 0;
        clock_gettime(CLOCK_MONOTONIC, &start);
        hid_t file = H5Fopen(words[1], H5F_ACC_RDONLY, H5P_DEFAULT);
        if (file < 0 || H5Lvisit(file, H5_INDEX_NAME, H5_ITER_NATIVE, visit, NULL) < 0)
            return 1;
        H5Fclose(file);
        clock_gettime(CLOCK_MONOTONIC, &end);
        printf("seconds %.9f\n", (double)(end.tv_sec - start.tv_sec) + (double)(end.tv_nsec - start.tv_nsec) / 1e9);
    }
    if (sum > 0)
        printf("verified\n");
    return 0;
}
