"""Checks that xarray finds two files identical, decoded and not decoded, and that their dimensions are equal."""

import sys

import netCDF4
import xarray

one, other = sys.argv[1], sys.argv[2]
for decoded in [True, False]:
    options = {"decode_cf": decoded, "mask_and_scale": decoded, "engine": "netcdf4"}
    with xarray.open_dataset(one, **options) as first, xarray.open_dataset(other, **options) as second:
        xarray.testing.assert_identical(first, second)
        assert first.identical(second)
        assert first.encoding.get("unlimited_dims") == second.encoding.get("unlimited_dims")
        for name in first.variables:
            assert first[name].dtype == second[name].dtype, name
            kept = ["dtype", "_FillValue", "scale_factor", "add_offset", "char_dim_name"]
            for key in kept:
                mine, its = first[name].encoding.get(key), second[name].encoding.get(key)
                assert repr(mine) == repr(its), (name, key, mine, its)
with netCDF4.Dataset(one) as first, netCDF4.Dataset(other) as second:
    assert first.data_model == second.data_model, (first.data_model, second.data_model)
    sizes = [[(d.name, d.size, d.isunlimited()) for d in file.dimensions.values()] for file in (first, second)]
    assert sizes[0] == sizes[1], sizes
    for name in first.ncattrs():
        assert type(first.getncattr(name)) is type(second.getncattr(name)), name
print("identical")
