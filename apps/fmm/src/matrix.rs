//! Small square matrices, as arrays of rows.

/// A square matrix.
pub type Matrix<const D: usize> = [[f64; D]; D];

/// A multiple of the unit matrix.
pub fn scaled_identity<const D: usize>(scale: f64) -> Matrix<D> {
    std::array::from_fn(|row| std::array::from_fn(|column| if row == column { scale } else { 0.0 }))
}

/// Matrix times vector.
#[inline]
pub fn apply<const D: usize>(matrix: &Matrix<D>, vector: &[f64; D]) -> [f64; D] {
    std::array::from_fn(|row| (0..D).map(|column| matrix[row][column] * vector[column]).sum())
}

/// Transposed matrix times vector.
#[inline]
pub fn apply_transposed<const D: usize>(matrix: &Matrix<D>, vector: &[f64; D]) -> [f64; D] {
    std::array::from_fn(|column| (0..D).map(|row| matrix[row][column] * vector[row]).sum())
}

/// The sum of the products of the elements: the trace of `AᵀB`.
pub fn inner_product<const D: usize>(left: &Matrix<D>, right: &Matrix<D>) -> f64 {
    left.iter().flatten().zip(right.iter().flatten()).map(|(left, right)| left * right).sum()
}

/// The determinant and the inverse, by Gauss–Jordan elimination with row pivoting; none if the matrix is singular.
pub fn invert<const D: usize>(matrix: &Matrix<D>) -> Option<(f64, Matrix<D>)> {
    let (mut left, mut right, mut determinant) = (*matrix, scaled_identity(1.0), 1.0);
    for column in 0..D {
        let magnitude = |row: &usize| left[*row][column].abs();
        let pivot = (column..D).max_by(|a, b| magnitude(a).total_cmp(&magnitude(b)))?;
        if pivot != column {
            left.swap(pivot, column);
            right.swap(pivot, column);
            determinant = -determinant;
        }
        let value = left[column][column];
        if value == 0.0 || !value.is_finite() {
            return None;
        }
        determinant *= value;
        for place in 0..D {
            left[column][place] /= value;
            right[column][place] /= value;
        }
        for row in (0..D).filter(|row| *row != column) {
            let factor = left[row][column];
            for place in 0..D {
                left[row][place] -= factor * left[column][place];
                right[row][place] -= factor * right[column][place];
            }
        }
    }
    Some((determinant, right))
}

/// The ellipse that the unit ball becomes, seen along all but the first two axes: the angle of the major axis in radians, the major and the minor half axis.
pub fn ellipse<const D: usize>(matrix: &Matrix<D>) -> (f64, f64, f64) {
    // The eigenvalues of the upper left part of HHᵀ: that of the projection.
    let product = |left: usize, right: usize| -> f64 {
        (0..D).map(|column| matrix[left][column] * matrix[right][column]).sum()
    };
    let (xx, xy, yy) = (product(0, 0), product(0, 1), product(1, 1));
    let (mean, half) = (f64::midpoint(xx, yy), ((xx - yy) / 2.0).hypot(xy));
    let angle = 0.5 * (2.0 * xy).atan2(xx - yy);
    (angle, (mean + half).sqrt(), (mean - half).max(0.0).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_inverse_undoes_the_matrix() {
        let matrix = [[0.0, 2.0, 1.0], [1.0, 0.5, -3.0], [4.0, 0.0, 1.0]];
        let (determinant, inverse) = invert(&matrix).unwrap();
        assert!((determinant - (2.0 * (-12.0 - 1.0) + (0.0 - 2.0))).abs() < 1e-12, "{determinant}");
        let vector = [1.0, -2.0, 0.5];
        let back = apply(&inverse, &apply(&matrix, &vector));
        assert!(back.iter().zip(vector).all(|(back, vector)| (back - vector).abs() < 1e-12));
        assert!(invert(&[[1.0, 2.0], [2.0, 4.0]]).is_none());
    }

    #[test]
    fn a_rotated_ellipse_has_its_axes() {
        let (sine, cosine) = 0.3f64.sin_cos();
        let (angle, major, minor) = ellipse(&[[3.0 * cosine, -sine], [3.0 * sine, cosine]]);
        assert!((angle - 0.3).abs() < 1e-12 && (major - 3.0).abs() < 1e-12 && (minor - 1.0).abs() < 1e-12);
    }
}
